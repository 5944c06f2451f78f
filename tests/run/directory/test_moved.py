"""Run directories from another machine, boot or oomph version, and clocks changed in the meantime."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from oomph.errors import RunDirectoryError
from oomph.gpu.memory_in_use import Gpu
from oomph.journal.journal import Event, foreign_format, read_journal
from oomph.process import process_identity
from oomph.process.process_identity import ProcessIdentity
from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.policy import decisions
from oomph.run.policy.ladder import Change
from oomph.run.report.summary import summarise
from oomph.run.supervisor import effects
from oomph.run.supervisor.chronicle import Chronicle
from oomph.run.supervisor.settings import other_gpus

RECORD = RunRecord(("train.py",), "python", "/", "2026-01-01")
LIMIT = 60


def said(stderr: bytes) -> list[str]:
    return [line for line in stderr.decode().splitlines() if line.startswith("oomph: ")]


# -- whose number it is -----------------------------------------------------------------------------------------------


def test_process_is_identified_by_more_than_its_pid() -> None:
    here = ProcessIdentity.here()
    assert here.lives
    assert not here.elsewhere
    assert ProcessIdentity.from_text(here.to_text()) == here
    assert not here._replace(began="1").lives, "its number was given to another one"
    assert not here._replace(boot="another").lives, "the machine has started anew since"
    other = here._replace(host="elsewhere")
    assert other.elsewhere
    assert not other.lives
    assert str(other) == f"process {os.getpid()} on elsewhere"


def test_exited_process_is_not_considered_alive() -> None:
    with subprocess.Popen(["sleep", "50"]) as child:
        there = ProcessIdentity.here(child.pid)
        assert there.lives
        child.kill()
    assert not there.lives


@pytest.mark.parametrize("text", ["", "x", "\n", "\0" * 20])
def test_malformed_text_is_not_a_process_identity(text: str) -> None:
    assert ProcessIdentity.from_text(text) is None


def test_process_known_only_by_its_pid_is_not_considered_alive() -> None:
    old = ProcessIdentity.from_text(f"{os.getpid()}\n")
    assert old is not None
    assert str(old) == f"process {os.getpid()}"
    assert not old.lives


# -- where there are no locks -----------------------------------------------------------------------------------------


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")  # NFS without its lock daemon

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_second_oomph_on_a_machine_is_refused_even_without_locks(tmp_path, without_locks, capfd) -> None:
    RunDirectory.create(tmp_path / "run", RECORD).close()
    assert "has no locks: make sure no other machine uses" in capfd.readouterr().err
    with subprocess.Popen(["sleep", "50"]) as other:
        (tmp_path / "run" / "lock").write_text(ProcessIdentity.here(other.pid).to_text())
        with pytest.raises(RunDirectoryError, match=f"in use by another oomph run, process {other.pid};"):
            RunDirectory.reopen(tmp_path / "run")
        other.kill()
    RunDirectory.reopen(tmp_path / "run").close()


def test_holder_from_another_machine_or_boot_does_not_block_without_locks(tmp_path, without_locks) -> None:
    RunDirectory.create(tmp_path / "run", RECORD).close()
    mine = ProcessIdentity.here(os.getppid())
    for stranger in (mine._replace(host="elsewhere"), mine._replace(boot="another"), mine._replace(began="1")):
        (tmp_path / "run" / "lock").write_text(stranger.to_text())
        RunDirectory.reopen(tmp_path / "run").close()


def test_lock_holder_is_reported_with_its_machine_and_state(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run", RECORD)
    for holder, words in (
        (ProcessIdentity.here()._replace(host="node-7"), f"another oomph run, process {os.getpid()} on node-7;"),
        (ProcessIdentity.here()._replace(began="1"), "has exited, but the script that it started has not$"),
    ):
        (tmp_path / "run" / "lock").write_text(holder.to_text())
        with pytest.raises(RunDirectoryError, match=words):
            RunDirectory.reopen(tmp_path / "run")
    run.close()


# -- another machine --------------------------------------------------------------------------------------------------


def test_run_from_another_machine_resumes_here_and_says_so(work) -> None:
    work.script("import os; open('count', 'a').write('x')\nraise SystemExit(len(open('count').read()) < 2)")
    assert work.run("--run-dir=there", "train.py").returncode == 1
    folder = work.folder / "there"
    record = json.loads((folder / "run.json").read_text())
    assert record["host"] == process_identity.host()
    (folder / "run.json").write_text(json.dumps({**record, "host": "node-7"}))
    (folder / "lock").write_text("17 node-7 another-boot 12345\n")
    again = work.run("--resume=there", "train.py")
    assert again.returncode == 0
    assert said(again.stderr)[0] == (
        f"oomph: this run comes from another machine, node-7; resuming it here, on {process_identity.host()}"
    )
    assert json.loads((folder / "run.json").read_text())["host"] == process_identity.host()


def test_changed_gpus_are_reported() -> None:
    def snapshot(*gpus: tuple[str, int]):
        return {"nvml": {"asked": True, "devices": [{"name": name, "total_bytes": size << 30} for name, size in gpus]}}

    assert other_gpus(snapshot(("NVIDIA A100", 80)), snapshot(("Tesla T4", 16))) == (
        "the GPUs have changed: NVIDIA A100 (80 GiB) → Tesla T4 (16 GiB)"
    )
    assert other_gpus(snapshot(("Tesla T4", 16)), snapshot()).endswith("→ none")
    assert other_gpus(snapshot(("Tesla T4", 16)), snapshot(("Tesla T4", 16))) == ""
    assert other_gpus(None, snapshot()) == other_gpus(snapshot(), None) == ""


def test_gpu_excluded_on_another_machine_does_not_hide_a_gpu_here() -> None:
    change = Change("exclude-gpu", "GPU-of-another-machine")
    here = (Gpu(0, "GPU-aa", "", 0), Gpu(1, "GPU-bb", "", 0))
    assert effects.environ_after([change], {}, here) == {}
    assert effects.environ_after([change], {}, ()) == {}, "NVML is silent: all would be hidden"
    assert effects.environ_after([Change("exclude-gpu", "GPU-aa")], {}, here) == {"CUDA_VISIBLE_DEVICES": "GPU-bb"}


# -- another oomph ----------------------------------------------------------------------------------------------------


def test_journal_in_another_format_is_rejected_with_a_one_line_error(work) -> None:
    work.script("raise SystemExit(1)")
    work.run("--run-dir=there", "train.py")
    (work.folder / "there" / "journal" / "2-0-script.jsonl").write_text('{"schema": 2, "event": "x"}\n{"sch')
    result = work.run("--resume=there", "train.py")
    assert result.returncode == 2
    assert said(result.stderr) == [
        "oomph: there cannot be resumed: its journal was written by another version of oomph, in format 2; this one "
        "reads format 1"
    ]


@pytest.mark.parametrize("text", ["", "\n", '{"schema": 1, "ev', "[]\n", "\0\0\0", '{"event": "x"}\n'])
def test_damaged_journal_is_not_mistaken_for_another_format(tmp_path: Path, text: str) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "1-0-script.jsonl").write_text(text)
    assert foreign_format(tmp_path) is None


# -- a journal that was cut off, and clocks ---------------------------------------------------------------------------

TRAINING = """
import json, os, signal, sys, time
import oomph.journal.journal
from oomph.journal.journal import Journal
from oomph.journal.events import FitStarted, Recovered, Resumed
from oomph.protocol.handover import Handover
from oomph.protocol.progress import ProgressBoard

handover = Handover.read()
journal = Journal(handover.path, handover.attempt, "script")
board = ProgressBoard(handover.path, handover.attempt)

def committed(steps, saved):
    journal.write(FitStarted(fit=0, guard="exact"))
    board.write(fit=0, epoch=0, step=steps % 100, steps=steps, saved=saved)

"""


@pytest.mark.parametrize("cut", [1, 40])
def test_run_with_truncated_journals_resumes(work, cut, wait_until) -> None:
    """After a power failure, the last line of each file is incomplete, and zeros may follow it."""
    work.script(
        TRAINING
        + "committed(12, 10)\nif handover.attempt == 1:\n    open('ready', 'w').write('x\\n'); time.sleep(50)\n"
        "journal.write(Resumed(fit=0, steps=10, kind='exact')); print('end')"
    )
    process = work.start("--run-dir=there", "train.py")
    work.wait_for("ready")
    process.kill()
    process.wait(LIMIT)
    for number, path in enumerate(sorted((work.folder / "there" / "journal").iterdir())):
        path.write_bytes(path.read_bytes()[:-cut] + b"\0" * 100 * (number % 2))
    wait_until(lambda: work.run("--resume=there", "train.py"), lambda ended: ended.returncode == 0, seconds=20)
    summary = work.document("summary.json", work.folder / "there")
    assert (summary["attempts"], summary["steps"]) == (2, 12)
    assert all(decision.reproduced for decision in decisions.replay(read_journal(work.folder / "there")))


JUMPING = """
jumps = iter([-3.2e8, 1.6e9, 0, -1e5, 7e8] * 1000)
real = time.time
oomph.journal.journal.time = type(sys)("clock")
oomph.journal.journal.time.time = lambda: real() + next(jumps)
"""


def test_clock_jumps_affect_neither_order_nor_totals(work) -> None:
    work.script(
        TRAINING + JUMPING + "committed(12 * handover.attempt, 10)\n"
        "journal.write(Recovered(fit=0, micro_batch=64 // handover.attempt, seconds=1.0))\n"
        "if handover.attempt < 4: os.kill(os.getpid(), 9)\n"
    )
    assert work.run("train.py").returncode == 0
    events = read_journal(work.run_dir)
    assert [event.attempt for event in events if event.name == "decided"] == [1, 2, 3, 4]
    assert all(decision.reproduced for decision in decisions.replay(events))
    summary = work.document("summary.json")
    assert (summary["attempts"], summary["restarts"], summary["micro_batch"]) == (4, 3, 16)
    assert 0 < summary["seconds"] < 60


def test_duration_of_a_lost_attempt_is_limited_by_its_clock(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    times = (1000.0, 1010.0, 3e8, 3e8 + 5, 2000.0, 2001.0)  # set forward by years, and then back
    lines = [Event.named("x", {}, 1, 0, "script", number, at).to_json() for number, at in enumerate(times)]
    (tmp_path / "journal" / "1-0-script.jsonl").write_text("\n".join(lines) + "\n")
    Chronicle(tmp_path, 1).close_lost_attempt()
    assert summarise(read_journal(tmp_path)).seconds == 16


def test_hang_detection_never_uses_the_time_of_day(monkeypatch) -> None:
    """Hang detection must not depend on the wall clock."""
    from oomph.run.hang.limits import Timings
    from oomph.run.hang.watch import Watch

    def forbidden() -> float:
        raise AssertionError("the time of day decides on a hang")

    watch = Watch(Timings(), 1.0)
    monkeypatch.setattr("time.time", forbidden)
    watch.started()
    watch.hear()
    assert watch.look(os.getpid()) is None
    watch.close()
