"""The unfinished runs in a folder, newest first, and which of them may be resumed."""

from __future__ import annotations

import os
from pathlib import Path

from oomph.run.directory.run_directory import RunDirectory, RunRecord
from oomph.run.directory.unfinished import StoredRun, first_trusted, unfinished_runs


def made(folder: Path, name: str, status: str, at: int, cwd: str = "") -> StoredRun:
    path = folder / ".oomph" / "runs" / name
    run = RunDirectory.create(path, RunRecord(("a.py",), "python", cwd or str(folder), ""))
    run.update(status=status)
    run.close()
    os.utime(path / "run.json", (at, at))
    return StoredRun(path, run.record)


def test_unfinished_runs_in_a_folder_are_listed_newest_first(tmp_path: Path) -> None:
    assert unfinished_runs(str(tmp_path)) == []
    failed = made(tmp_path, "1", "failed", 100)
    running = made(tmp_path, "0", "running", 200)
    made(tmp_path, "2", "finished", 300)
    made(tmp_path, "3", "running", 400, cwd="/elsewhere")
    assert unfinished_runs(str(tmp_path)) == [running, failed]


def test_untrusted_run_is_skipped_and_reported_once(tmp_path: Path, capfd) -> None:
    mine, open_to_all = made(tmp_path, "0", "failed", 100), made(tmp_path, "1", "failed", 200)
    open_to_all.path.chmod(0o777)
    assert first_trusted(unfinished_runs(str(tmp_path))) == mine
    assert capfd.readouterr().err.count("others can write to it") == 1
    assert first_trusted([]) is None
