"""oomph runs lists real runs, and prunes them without touching what may still be needed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import oomph
from oomph.cli import main
from oomph.monitor.sample import Sample
from oomph.monitor.store import Store
from oomph.run.directory.run_directory import RunRecord

LIMIT = 60
SCRIPTS = {"good.py": "print('trained')", "bad.py": "raise SystemExit(3)", "long.py": "import time; time.sleep(50)"}


def call(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OOMPH_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-m", "oomph", *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(Path(oomph.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create three scripts, and a run of each of the first two."""
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    call(tmp_path, "run", "good.py", "--epochs", "5")
    call(tmp_path, "run", "--run-dir", "out/bad", "bad.py", code=3)
    return tmp_path


def entries(folder: Path) -> dict[str, Any]:
    document = json.loads(call(folder, "runs", "--json").stdout)
    return {entry["command"][0] if entry["command"] else entry["problem"]: entry for entry in document["runs"]}


def made(path: Path, status: str = "finished", **rest: Any) -> Path:
    path.mkdir(parents=True)
    (path / "run.json").write_text(RunRecord(("train.py",), "python", "/", "", status=status, **rest).to_json())
    (path / "journal").mkdir()
    (path / "lock").write_text("1 - - -")
    return path


# -- the list --------------------------------------------------------------------------------------------------------


def test_list_shows_how_each_run_ended(project: Path) -> None:
    bad, good = call(project, "runs").stdout.splitlines()[:2]
    assert re.fullmatch(r"out/bad +failed +\d{4}-\d\d-\d\d \d\d:\d\d  0 steps  failed +\d+ KiB  bad.py", bad)
    assert re.fullmatch(r".oomph/runs/\S+-good +finished .*  unguarded  +\d+ KiB  good.py --epochs 5", good)
    assert call(project, "explain", ".").stdout == call(project, "runs").stdout


def test_json_has_what_the_list_shows(project: Path) -> None:
    found = entries(project)["good.py"]
    assert (found["status"], found["state"], found["steps"], found["exactness"]) == (
        "finished",
        "finished",
        0,
        "unguarded",
    )
    assert found["command"] == ["good.py", "--epochs", "5"]
    assert 10_000 < found["bytes"] < 1_000_000
    assert time.time() - LIMIT < found["changed"] <= time.time()
    assert found["created"].startswith(time.strftime("%Y-"))


def test_run_in_progress_is_listed_as_running_and_never_pruned(project: Path) -> None:
    script = subprocess.Popen(
        [sys.executable, "-m", "oomph", "run", "long.py"], cwd=project, stderr=subprocess.PIPE, text=True
    )
    try:
        assert script.stderr is not None
        assert "run directory" in script.stderr.readline()
        run = entries(project)["long.py"]["path"]
        assert f"{run}  running" in call(project, "runs").stdout
        assert "kept 1 run: 1 in progress" in call(project, "runs", "prune", "--keep=0").stdout
        assert (
            call(project, "runs", "prune", run, code=1).stderr == f"oomph: {run} cannot be removed: it is in progress\n"
        )
        assert (project / run / "run.json").exists()
    finally:
        script.send_signal(signal.SIGINT)
        script.communicate(timeout=LIMIT)
    assert entries(project)["long.py"]["state"] == "stopped"


def test_wide_rows_continue_on_a_second_line_of_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made(tmp_path / ".oomph/runs/20261130-031852-train")
    monkeypatch.setattr("oomph.cli.runs.line_width", lambda: 60)
    assert main(["runs"]) == 0
    path, facts, *_ = capsys.readouterr().out.splitlines()
    assert path == ".oomph/runs/20261130-031852-train"
    assert facts.startswith("  finished  ")
    assert len(facts) <= 60


def test_planted_run_shows_nothing_live_and_no_secret(tmp_path: Path) -> None:
    run = made(tmp_path / "r\x1b[31m", "fin\u202eished\noomph: forged")
    record = RunRecord(("train.py", "--api-key", "sk-abcdefghijklmnop123456", "\x1b]0;x\x07"), "python", "/", "")
    (run / "run.json").write_text(record._replace(status="done\x1b[2J").to_json())
    (run / "summary.json").write_text('{"steps": 1e400, "exactness": "\\u001b[31m"}')
    os.utime(run / "run.json", (1e11, 1e11))
    for words in (("runs",), ("runs", "--json"), ("runs", "prune", "--keep=0")):
        text = call(tmp_path, *words).stdout
        assert not re.search("[\x1b\x07\u202e]|sk-abc|^oomph", text)
    assert entries(tmp_path)["train.py"]["steps"] is None


def test_unreadable_runs_are_listed_with_the_reason(tmp_path: Path) -> None:
    (made(tmp_path / "a") / "run.json").write_text("{")
    (made(tmp_path / "b") / "run.json").write_text('{"schema": 7}')
    text = call(tmp_path, "runs").stdout
    assert re.search(r"^a +- .* run.json is damaged$", text, re.MULTILINE)
    assert re.search(r"^b +- .* written by another version$", text, re.MULTILINE)


def test_folder_without_runs_and_wrong_paths_are_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    assert call(tmp_path, "runs").stderr == "oomph: there are no runs in .\n"
    assert json.loads(call(tmp_path, "runs", "--json").stdout) == {"schema": 1, "runs": []}
    assert call(tmp_path, "runs", "nowhere", code=3).stderr == "oomph: there is no folder or run 'nowhere'\n"
    assert "is a file" in call(tmp_path, "runs", "log", code=3).stderr
    assert "leave it out" in call(tmp_path, "runs", "--keep", "3", code=2).stderr


def test_a_run_and_its_files_can_be_named(project: Path) -> None:
    for target in ("out/bad", "out/bad/run.json"):
        assert call(project, "runs", target).stdout.startswith("out/bad  failed")


# -- prune -----------------------------------------------------------------------------------------------------------


def test_old_finished_runs_are_removed_after_a_dry_run_that_says_the_same(project: Path) -> None:
    old = made(project / ".oomph/runs/old")
    os.utime(old / "run.json", (1e9, 1e9))
    planned = call(project, "runs", "prune", "--older-than", "30d", "--dry-run").stdout
    assert old.exists()
    done = call(project, "runs", "prune", "--older-than", "30d").stdout
    assert done == planned.replace("would remove", "removed")
    assert re.fullmatch(
        r"removed .oomph/runs/old  finished, 2001-09-09 \d\d:\d\d, \d+ KiB\n"
        r"removed 1 run, \d+ KiB; kept 1 run: 1 recent\n",
        done,
    )
    assert not old.exists()
    assert set(entries(project)) == {"good.py", "bad.py"}


def test_prune_leaves_what_may_be_needed_until_it_is_named(tmp_path: Path) -> None:
    runs = tmp_path / ".oomph/runs"
    made(runs / "killed", "running", attempts=1)
    (made(runs / "failed", "failed") / "checkpoints/step-1-fit0-epoch0-step1").mkdir(parents=True)
    (made(runs / "damaged") / "run.json").write_text("{")
    made(tmp_path / "elsewhere")
    document = json.loads(call(tmp_path, "runs", "prune", "--keep=0", "--json").stdout)
    assert document["removed"] == document["failed"] == []
    kept = {Path(each["path"]).name: each["why"] for each in document["kept"]}
    assert kept == {"killed": "resumable", "failed": "resumable", "damaged": "unreadable"}
    text = call(tmp_path, "runs", "prune", "--keep=0").stdout
    assert text == (
        "removed 0 runs, 0 B; kept 3 runs: 2 that can be resumed, 1 that cannot be read."
        " To remove one of those: oomph runs prune RUN\n"
    )
    named = [f".oomph/runs/{name}" for name in kept]
    assert "removed 4 runs" in call(tmp_path, "runs", "prune", *named, "elsewhere").stdout
    assert list(runs.iterdir()) == []
    assert not (tmp_path / "elsewhere").exists()


def test_run_locked_meanwhile_is_reported_and_the_others_are_removed(tmp_path: Path) -> None:
    held, free = made(tmp_path / ".oomph/runs/held"), made(tmp_path / ".oomph/runs/free")
    with (held / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = call(tmp_path, "runs", "prune", "--keep=0", code=1)
    assert done.stderr == "oomph: .oomph/runs/held cannot be removed: it is in use\n"
    assert (held.exists(), free.exists()) == (True, False)


def test_files_of_the_script_in_a_run_stay(tmp_path: Path) -> None:
    run = made(tmp_path / "out")
    (run / "model.keras").write_text("mine")
    assert "not oomph's, and left: model.keras" in call(tmp_path, "runs", "prune", "out").stdout
    assert [each.name for each in run.iterdir()] == ["model.keras"]


def test_folder_that_only_looks_like_a_run_is_left_alone(tmp_path: Path) -> None:
    for name in ("journal", "checkpoints"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine").touch()
    assert "say which runs" in call(tmp_path, "runs", "prune", code=2).stderr
    assert "may be no run of oomph's" in call(tmp_path, "runs", "prune", ".", code=1).stderr
    assert "removed 0 runs" in call(tmp_path, "runs", "prune", "--keep=0").stdout
    assert (tmp_path / "checkpoints/mine").exists()
    assert call(tmp_path, "runs").stderr == "oomph: there are no runs in .\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say which runs to remove"),
        (("--older-than", "soon"), "expects a time"),
        (("--older-than", "9" * 400 + "d"), "expects a time"),
        (("--older-than", ""), "expects a time such as 12h, 30d or 8w, not ''"),
        (("--keep", "-1"), "argument --keep: '-1' is not a number of runs, such as 0 or 10"),
        (("--keep", "²"), "'²' is not a number of runs"),
        (("--keep", "3", "r"), "give either runs, or a folder and its rule"),
        (("r", "."), "give either runs, or a folder and its rule"),
    ],
)
def test_unclear_request_removes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    run = made(tmp_path / "r")
    assert said in " ".join(call(tmp_path, "runs", "prune", *words, code=2).stderr.split())
    assert run.exists()


def test_a_link_to_a_run_shows_the_size_of_the_run(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    (run / "checkpoint").write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to(run)
    (run / "loop").symlink_to(run)
    sizes = [entry["bytes"] for entry in json.loads(call(tmp_path, "runs", "--json", "r", "link").stdout)["runs"]]
    assert sizes[0] == sizes[1] >= 1 << 20


# -- Git -------------------------------------------------------------------------------------------------------------


def test_oomph_folder_hides_itself_from_git_unless_the_user_decides_otherwise(project: Path) -> None:
    ignored = project / ".oomph/.gitignore"
    assert ignored.read_text() == "*\n"
    subprocess.run(["git", "init", "-q"], cwd=project, check=True, timeout=LIMIT)
    status = subprocess.run(
        ["git", "status", "--short", "-uall"], cwd=project, capture_output=True, text=True, check=True, timeout=LIMIT
    )
    assert ".oomph" not in status.stdout
    ignored.unlink()
    call(project, "run", "good.py")
    assert not ignored.exists()
    call(project, "run", "--run-dir", "new/.oomph/runs/mine", "good.py")
    assert (project / "new/.oomph/.gitignore").exists()


# -- what oomph.Monitor has left -------------------------------------------------------------------------------------


def monitored(folder: Path, name: str, age: float = 1000.0) -> Path:
    """Store samples as an `oomph.Monitor` does outside of a run."""
    path = folder / ".oomph/monitor" / name
    (path / "monitor").mkdir(parents=True)
    (path / "training").write_bytes(b"x" * 4096)
    store = Store(path)
    store.append(Sample(time.time() - age, training={"steps_total": 1200.0}))
    store.close()
    os.utime(path / "monitor/samples.jsonl", (time.time() - age,) * 2)
    return path


def test_samples_of_a_monitor_are_listed_reported_and_pruned_as_runs_are(tmp_path: Path) -> None:
    old, new = monitored(tmp_path, "old", 40 * 86400), monitored(tmp_path, "new")
    listed = call(tmp_path, "runs").stdout.splitlines()
    assert listed[0].split() == [".oomph/monitor/new", "measured", *listed[0].split()[2:]]
    assert "1,200 steps" in listed[0]
    assert listed[0].endswith("oomph.Monitor")
    assert listed[-1] == "Next: oomph report .oomph/monitor/new  (the newest)"
    (entry, _) = json.loads(call(tmp_path, "runs", "--json").stdout)["runs"]
    assert (entry["monitor"], entry["state"], entry["problem"], entry["steps"]) == (True, "measured", None, 1200)
    assert "the report is in .oomph/monitor/new/report.html" in call(tmp_path, "report").stderr
    assert "removed 1 run" in call(tmp_path, "runs", "prune", "--older-than", "30d").stdout
    assert not old.exists()
    assert "removed 1 run" in call(tmp_path, "runs", "prune", str(new)).stdout
    assert not new.exists()


def test_samples_that_are_being_written_are_in_progress_and_stay(tmp_path: Path) -> None:
    live, silent = monitored(tmp_path, "live", age=1.0), monitored(tmp_path, "silent")
    store = Store(silent)
    store.append(Sample(time.time() - 900))
    os.utime(silent / "monitor/samples.jsonl", (time.time() - 900,) * 2)
    try:
        done = call(tmp_path, "runs", "prune", "--keep", "0", code=1)
    finally:
        store.close()
    assert "kept 1 run: 1 in progress" in done.stdout
    assert "silent cannot be removed: it is in use" in done.stderr
    assert (live / "training").exists()
    assert (silent / "training").exists()


def test_samples_that_a_user_put_elsewhere_are_not_removed(tmp_path: Path) -> None:
    path = monitored(tmp_path, "x").rename(tmp_path / "logs")
    (path / "checkpoints").mkdir()
    done = call(tmp_path, "runs", "prune", "logs", code=1)
    assert "outside of .oomph" in done.stderr
    assert (path / "checkpoints").is_dir()
