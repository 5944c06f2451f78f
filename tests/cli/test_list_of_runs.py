"""The list of runs and a run's own story agree on how its latest start ended."""

from __future__ import annotations

import fcntl
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from oomph.cli import main
from oomph.journal.events import AttemptEnded, AttemptStarted, Decided, Diagnosed, RunEnded, RunStarted
from oomph.journal.journal import Journal
from oomph.run.directory.run_directory import RunRecord

CTRL_C = {"stopped": True, "interrupted": True}


def make(folder: Path, status: str, attempts: int = 1, saved: bool = True) -> Path:
    run = folder / ".oomph" / "runs" / "r"
    run.mkdir(parents=True)
    record = RunRecord(("train.py",), "python", str(Path.cwd()), "", status=status, attempts=attempts)
    (run / "run.json").write_text(record.to_json())
    if saved:
        (run / "checkpoints" / "step-1-fit0-epoch0-step1").mkdir(parents=True)
    return run


def started(run: Path, attempt: int, call: bool = True) -> Journal:
    journal = Journal(run, attempt, "supervisor")
    if call:
        journal.write(RunStarted(oomph="0"))
    journal.write(AttemptStarted(command=["train.py"]))
    return journal


def ended(journal: Journal, code: int, action: str = "finish", reason: str = "", **ending: Any) -> None:
    returncode = ending.pop("returncode", code)
    journal.write(AttemptEnded(returncode=returncode, seconds=9.0, steps=12, saved=10))
    journal.write(Decided(action=action, exit_code=code, reason=reason, ending={"returncode": returncode, **ending}))
    journal.write(RunEnded(exit_code=code))
    journal.close()


def told(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["explain", *words]) == 0
    return " ".join(capsys.readouterr().out.split())


def listed(capsys: pytest.CaptureFixture[str], run: Path) -> tuple[str, str]:
    """Return the state shown in the list, as text and as JSON."""
    text = told(capsys, str(run.parent)).removeprefix(f"{run} ").split()[0]
    main(["explain", "--json", str(run.parent)])
    (entry,) = json.loads(capsys.readouterr().out)["runs"]
    return text, entry["state"]


def state(capsys: pytest.CaptureFixture[str], run: Path) -> str:
    main(["explain", "--json", str(run)])
    return str(json.loads(capsys.readouterr().out)["run"]["state"])


def test_run_killed_with_its_supervisor_is_not_listed_as_running(capsys, tmp_path):
    run = make(tmp_path, "running")
    started(run, 1)
    assert listed(capsys, run) == ("unfinished", "unfinished")
    assert state(capsys, run) == "unfinished"
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert listed(capsys, run) == ("running", "going-on")


def test_outcome_comes_from_the_latest_start_of_the_run(capsys, tmp_path):
    run = make(tmp_path, "running", attempts=2)
    ended(started(run, 1), 75, "requeue", "preempted by SIGTERM", preempted="SIGTERM")
    started(run, 2)
    text = told(capsys, str(run))
    assert "exit code 75" not in text
    assert "preempted" not in text
    assert "the run has not finished: oomph was terminated from outside" in text
    with (run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = told(capsys, str(run))
    assert "preempted" not in text
    assert "the run is still in progress" in text


@pytest.mark.parametrize(
    ("code", "ending", "by"),
    [
        (130, CTRL_C, "stopped by Ctrl-C (SIGINT)"),
        (1, CTRL_C, "stopped by Ctrl-C (SIGINT)"),  # a script that exits with its own code instead
        (130, {"interrupted": True}, "stopped by Ctrl-C (SIGINT)"),
        (129, {"stopped": True, "returncode": -signal.SIGHUP}, "stopped by SIGHUP (the terminal was closed)"),
        (143, {"stopped": True, "returncode": -signal.SIGTERM}, "stopped by SIGTERM"),
        (143, {"called_off": int(signal.SIGTERM), "returncode": -9}, "stopped by SIGTERM"),
        (137, {"stopped": True, "returncode": -signal.SIGKILL}, "stopped from outside"),
    ],
)
def test_stopped_run_shows_what_stopped_it_and_how_to_resume(capsys, tmp_path, code, ending, by):
    run = make(tmp_path, "failed")
    ended(started(run, 1), code, **ending)
    text = told(capsys, str(run))
    assert f"{run}: {by} after 12 steps, 9 s" in text
    assert text.endswith(f"Next: oomph run --resume={run} train.py (resumes from its last checkpoint)")
    assert listed(capsys, run) == ("stopped", "stopped")
    assert state(capsys, run) == "stopped"


@pytest.mark.parametrize("ending", [{}, {"interrupted": True}])
def test_run_that_failed_with_a_script_error_is_not_reported_as_stopped(capsys, tmp_path, ending):
    run = make(tmp_path, "failed")
    ended(started(run, 1), 3, **ending)
    assert f"{run}: ended with exit code 3 after 12 steps" in told(capsys, str(run))
    assert listed(capsys, run) == ("failed", "failed")


def test_run_stopped_before_its_first_checkpoint_will_start_over(capsys, tmp_path):
    run = make(tmp_path, "failed", saved=False)
    ended(started(run, 1), 130, **CTRL_C)
    assert told(capsys, str(run)).endswith("(no checkpoint was taken: starts from the beginning)")


def test_earlier_fault_is_not_the_reason_for_a_later_stop(capsys, tmp_path):
    run = make(tmp_path, "failed", attempts=2)
    failed = started(run, 1)
    failed.write(AttemptEnded(returncode=-9, seconds=1.0, steps=5, saved=5, oom_kills=1))
    failed.write(Diagnosed(fault="host-oom", code="OOM201"))
    failed.close()
    ended(started(run, 2), 130, **CTRL_C)
    text = told(capsys, str(run))
    assert "stopped by Ctrl-C (SIGINT) after 12 steps in 2 attempts" in text
    assert "the evidence:" not in text


def test_every_run_under_a_folder_is_listed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = RunRecord(("train.py",), "python", str(tmp_path), "", status="finished")
    runs = [".oomph/runs/a", ".oomph/runs/b", "named", "project/.oomph/runs/c", "lost"]
    for run in runs:
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "run.json").write_text(record.to_json())
    (tmp_path / "lost" / "run.json").unlink()
    (tmp_path / "lost" / "journal").mkdir()
    (tmp_path / "lost" / "journal" / "1-0-supervisor.jsonl").touch()
    (tmp_path / "no-run").mkdir()
    (tmp_path / "gone").symlink_to("nowhere")
    assert main(["explain", "--json", "."]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    assert sorted(each["path"] for each in found) == sorted(runs)


def test_list_marks_a_run_written_by_another_oomph_version(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = make(tmp_path, "finished")
    (run / "run.json").write_text('{"schema": 7}')
    assert "written by another version" in told(capsys, str(run.parent))
