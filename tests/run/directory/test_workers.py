"""The run directories of several workers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oomph.checkpoint.origin import key_name, key_of
from oomph.errors import RunDirectoryError
from oomph.journal.events import AttemptEnded, AttemptStarted, Decided, FitStarted, Resumed, WorkersPlaced
from oomph.journal.journal import Journal, read_journal
from oomph.run.directory.recorded_story import summary_of_run
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.directory.search import runs_in
from oomph.run.directory.trust import why_not_trusted
from oomph.run.directory.workers import directory_of, folders_of

ENTROPY = "ab" * 16


@pytest.fixture
def run(tmp_path: Path):
    record = RunRecord(("train.py",), "python", "/", "", entropy=ENTROPY, workers=3)
    created = RunDirectory.create(tmp_path / "runs" / "run", record)
    yield created
    created.close()


def test_first_worker_has_the_directory_of_the_run(run: RunDirectory) -> None:
    assert directory_of(run, 0) is run


def test_others_lie_below_it_and_are_no_runs_of_their_own(run: RunDirectory) -> None:
    others = [directory_of(run, rank) for rank in (1, 2)]
    assert folders_of(run.path) == [run.path, *(each.path for each in others)]
    assert [each.path.stat().st_mode & 0o777 for each in others] == [0o700, 0o700]
    assert runs_in(run.path.parent.parent) == [run.path]


def test_generators_without_a_seed_differ_between_workers_but_not_between_attempts(run: RunDirectory) -> None:
    drawn = [directory_of(run, rank).record.entropy for rank in (0, 1, 2)]
    assert len(set(drawn)) == 3
    assert drawn == [directory_of(run, rank).record.entropy for rank in (0, 1, 2)]
    assert all(len(each) == 32 for each in drawn)


def test_key_for_a_workers_checkpoints_lies_outside_the_run(run: RunDirectory) -> None:
    other = directory_of(run, 1)
    assert key_of(other.path, ENTROPY) == key_of(run.path, ENTROPY)
    assert (run.path.parent / key_name()).exists()
    assert not list(run.path.rglob(".oomph-key*"))


def test_planted_link_is_neither_followed_nor_trusted(run: RunDirectory, tmp_path: Path) -> None:
    (run.path / "workers").symlink_to(tmp_path)
    (tmp_path / "1").mkdir()
    assert folders_of(run.path) == [run.path]
    assert "workers in it is a link" in str(why_not_trusted(run.path))
    with pytest.raises(RunDirectoryError, match="cannot be written"):
        directory_of(run, 1)


@pytest.mark.parametrize("workers", [0, -1, 1025, "2", None, 1.5])
def test_impossible_number_of_workers_is_refused(run: RunDirectory, workers: object) -> None:
    document = json.loads(run.record.to_json())
    with pytest.raises(ValueError, match="the workers in run"):
        RunRecord.from_json(json.dumps({**document, "workers": workers}))


def _training(run_dir: Path, rank: int, *resumed: Resumed) -> None:
    first, second = (Journal(run_dir, attempt, "script", rank) for attempt in (1, 2))
    first.write(FitStarted(fit=0, guard="exact"))
    second.write(FitStarted(fit=0, guard="exact"))
    for each in resumed:
        second.write(each)


@pytest.mark.parametrize(("second", "label"), [((Resumed(steps=4, kind="exact"),), "unverified"), ((), "started-over")])
def test_result_is_worth_what_that_of_the_worst_worker_is(
    run: RunDirectory, second: tuple[Resumed, ...], label: str
) -> None:
    supervisor = [Journal(run.path, attempt, "supervisor") for attempt in (1, 2)]
    supervisor[0].write(AttemptStarted())
    _training(run.path, 0, Resumed(steps=4, kind="exact"))
    _training(directory_of(run, 1).path, 1, *second)
    supervisor[0].write(AttemptEnded(returncode=-9, steps=6, saved=4))
    supervisor[0].write(Decided(action="restart"))
    supervisor[1].write(AttemptStarted())
    supervisor[1].write(AttemptEnded(steps=9, saved=9))
    summary = summary_of_run(run.path, read_journal(run.path), 0)
    assert (summary.exactness, summary.steps) == (label, 9)


def test_worker_without_a_place_in_the_last_attempt_does_not_count(run: RunDirectory) -> None:
    supervisor = [Journal(run.path, attempt, "supervisor") for attempt in (1, 2)]
    for journal, hosts in zip(supervisor, (["a", "b"], ["a"]), strict=True):
        journal.write(AttemptStarted())
        journal.write(WorkersPlaced(hosts=hosts))
    _training(run.path, 0, Resumed(steps=4, kind="exact"))
    Journal(directory_of(run, 1).path, 1, "script", 1).write(FitStarted(fit=0, guard="exact"))
    summary = summary_of_run(run.path, read_journal(run.path), 0)
    assert [str(reason) for reason in summary.reasons] == ["the number of workers has changed: 2 → 1"]
