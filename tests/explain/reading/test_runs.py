"""A run directory as evidence: its contents, what may be damaged, and how large it may be."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from oomph.explain.diagnose import diagnose
from oomph.explain.reading import run
from oomph.journal.events import AttemptEnded, CheckpointFailed, CheckpointRefused, Decided, Hung, Oom, UnknownEvent
from oomph.journal.gaps import JournalGap, gap_in
from oomph.journal.journal import Event, Journal


def test_ten_thousand_attempts_are_read_in_linear_time(tmp_path: Path, monkeypatch) -> None:
    ends = range(1, 10_001)
    events = [Event.named("attempt-ended", {"returncode": -9}, attempt, sequence=1) for attempt in ends]
    monkeypatch.setattr(run, "read_journal", lambda directory: events)
    began = time.process_time()
    facts = list(run.read_run(tmp_path))
    assert time.process_time() - began < 1.5
    assert [fact.origin for fact in facts if fact.source == "exit"] == [f"attempt {attempt}" for attempt in ends]


@pytest.mark.parametrize("seconds", ["q", None, [], float("inf"), float("nan")])
def test_hang_with_an_invalid_duration_is_reported_without_it(tmp_path: Path, seconds: object) -> None:
    Journal(tmp_path, 1, "supervisor").write(Hung(phase="step", seconds=seconds, limit_seconds=60.0))
    (fact,) = run.read_run(tmp_path)
    assert fact.text == "no progress for ? s in step (limit 60 s); oomph stopped the script"


def test_fifo_in_place_of_a_file_does_not_block_the_reader(tmp_path: Path) -> None:
    Journal(tmp_path, 1, "supervisor").write(Oom(message="no room"))
    (tmp_path / "stderr").mkdir()
    for name in ("stderr/1.log", "stderr/2.log", "bfc_GPU_0_bfc.1"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "stderr" / "\u00b2.log").write_text("not the number of an attempt")
    assert [fact.source for fact in run.read_run(tmp_path)] == ["exception"]


@pytest.mark.parametrize(
    ("ending", "sources"), [({"preempted": "SIGTERM"}, []), ({"stopped": True}, []), ({}, ["exit"])]
)
def test_kill_that_oomph_requested_is_not_reported_as_a_kill(
    tmp_path: Path, ending: dict[str, object], sources: list[str]
) -> None:
    journal = Journal(tmp_path, 1, "supervisor")
    journal.write(AttemptEnded(returncode=-9))
    journal.write(Decided(action="requeue", ending=ending))
    assert [fact.source for fact in run.read_run(tmp_path)] == sources


def test_sparse_log_is_read_from_its_end(tmp_path: Path) -> None:
    """The end is read, just as oomph keeps the end of a script's output."""
    log = tmp_path / "stderr" / "1.log"
    log.parent.mkdir()
    log.touch()
    os.truncate(log, 1 << 40)
    with log.open("ab") as file:
        file.write(b'\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: told\n')
    assert "ValueError" in str(list(run.read_run(tmp_path)))


def test_tensorflow_is_not_suggested_for_reading_a_refused_oomph_checkpoint(tmp_path: Path) -> None:
    """It is not a TensorFlow checkpoint, and oomph has already done what the page advises for those."""
    Journal(tmp_path, 1, "script").write(
        CheckpointRefused(name="step-000002", reason="tensors.bin does not match its checksum")
    )
    diagnosis, *_ = diagnose(run.read_run(tmp_path))
    assert diagnosis.captured["reason"] == "step-000002: tensors.bin does not match its checksum"
    assert "sha256sum --check" in diagnosis.remedies[1].command
    assert not any("list_variables" in remedy.command or remedy.action for remedy in diagnosis.remedies)


def test_failed_checkpoint_write_suggests_checking_disk_space(tmp_path: Path) -> None:
    Journal(tmp_path, 1, "script").write(CheckpointFailed(reason="Read-only file system (checkpoint step-000002)"))
    diagnosis, *_ = diagnose(run.read_run(tmp_path))
    assert diagnosis.code == "CKP401"
    assert diagnosis.remedies[0].command == "df -h . && df -i ."


def kept(tmp_path: Path) -> Path:
    """Create a run with two attempts; the second attempt's Python never claimed it."""
    for attempt in (1, 2):
        Journal(tmp_path, attempt, "supervisor").write(AttemptEnded(returncode=0))
    Journal(tmp_path, 1, "script").write(Oom(message="no room"))
    (tmp_path / "owner-1").touch()
    (tmp_path / "stderr").mkdir()
    for attempt in (1, 2):
        (tmp_path / f"stderr/{attempt}.log").touch()
    (tmp_path / "journal/1-0-worker9.jsonl").touch()  # from a fork that wrote nothing
    return tmp_path


def test_complete_journal_is_not_reported_as_incomplete(tmp_path: Path) -> None:
    assert gap_in(kept(tmp_path), attempts=2) is None


@pytest.mark.parametrize("attempt", [1, 2])
@pytest.mark.parametrize("state", ["missing", "empty"])
def test_missing_or_emptied_journal_file_is_reported_by_name(tmp_path: Path, attempt: int, state: str) -> None:
    name = f"{attempt}-0-{'script' if attempt == 1 else 'supervisor'}.jsonl"
    path = kept(tmp_path) / "journal" / name
    path.unlink()
    if state == "empty":
        path.touch()
    assert gap_in(tmp_path) == JournalGap(f"the journal in {tmp_path} is incomplete: {name} is {state}")


def test_unknown_events_are_reported_by_kind(tmp_path: Path) -> None:
    journal = Journal(kept(tmp_path), 2, "supervisor")
    for name in ("later", "even-later", "later"):
        journal.write(UnknownEvent(name=name))
    gap = gap_in(tmp_path, attempts=2)
    text = f"the journal in {tmp_path} has events that this version of oomph does not know: even-later and later"
    assert gap == JournalGap(text, hides_events=False)


def test_missing_journals_of_counted_attempts_are_summarised_in_one_sentence(tmp_path: Path) -> None:
    names = ", ".join(f"{attempt}-0-supervisor.jsonl is missing" for attempt in (3, 4, 5))
    gap = gap_in(kept(tmp_path), attempts=9)
    assert gap is not None
    assert gap.text.endswith(f" is incomplete: {names} and 4 more")
