"""Runs are found wherever they lie below a folder, without following links or reading folders of data to the end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from oomph.run.directory import search
from oomph.run.directory.run_directory import RunRecord
from oomph.run.directory.search import own_runs, runs_in


def made(path: Path, at: int = 100) -> Path:
    path.mkdir(parents=True)
    (path / "run.json").write_text(RunRecord(("a.py",), "python", "/", "").to_json())
    os.utime(path / "run.json", (at, at))
    return path


def test_runs_are_found_whatever_their_folder_newest_first(tmp_path: Path) -> None:
    places = [".oomph/runs/a", ".oomph/notebooks/train", "out", "sweeps/lr/3", "project/.oomph/runs/b", "lost"]
    runs = [made(tmp_path / place, at) for at, place in enumerate(places, 100)]
    (tmp_path / "lost/run.json").unlink()
    (tmp_path / "lost/journal").mkdir()
    (tmp_path / "lost/journal/1-0-supervisor.jsonl").touch()
    os.utime(tmp_path / "lost/journal", (200, 200))
    (tmp_path / ".oomph/monitor/m").mkdir(parents=True)
    assert runs_in(tmp_path) == runs[::-1]
    assert runs_in(tmp_path / ".oomph") == runs_in(tmp_path / ".oomph/notebooks") + runs_in(tmp_path / ".oomph/runs")


def test_folder_of_another_program_that_is_called_journal_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "src/app/journal").mkdir(parents=True)
    (tmp_path / "src/app/journal/reader.py").touch()
    (tmp_path / "src/app/journal/2026-11-30.jsonl").touch()
    assert runs_in(tmp_path) == []


def test_runs_of_a_demonstration_are_found(tmp_path: Path) -> None:
    run = made(tmp_path / ".oomph/demo/20261130-120000/oomph-run")
    (run.parent / "data").mkdir()
    assert runs_in(tmp_path) == [run]
    assert own_runs(tmp_path) == [], "they are not removed one by one"


def test_own_runs_are_those_in_the_folder_s_own_oomph_folder(tmp_path: Path) -> None:
    script, notebook = made(tmp_path / ".oomph/runs/a", 200), made(tmp_path / ".oomph/notebooks/n")
    made(tmp_path / "out")
    made(tmp_path / "project/.oomph/runs/b")
    assert own_runs(tmp_path) == own_runs(tmp_path / ".oomph") == [script, notebook]
    assert own_runs(tmp_path / ".oomph/runs") == [script]
    assert own_runs(tmp_path / "missing") == []


def test_nothing_is_found_through_a_link(tmp_path: Path) -> None:
    elsewhere, here = made(tmp_path / "elsewhere/.oomph/runs/a").parents[2], tmp_path / "here"
    (here / ".oomph/runs").mkdir(parents=True)
    (here / ".oomph/runs/planted").symlink_to(elsewhere / ".oomph/runs/a")
    (here / "folder").symlink_to(elsewhere)
    (here / "loop").symlink_to(here)
    (here / "forged").mkdir()
    (here / "forged/run.json").symlink_to(elsewhere / ".oomph/runs/a/run.json")
    assert runs_in(here) == []
    (here / ".oomph/runs/planted").unlink()
    (here / ".oomph/runs").rmdir()
    (here / ".oomph/runs").symlink_to(elsewhere / ".oomph/runs")
    assert own_runs(here) == runs_in(here) == []
    assert len(runs_in(here / "folder")) == 1, "a link that the user names is followed"


def test_search_of_a_large_folder_ends_early_and_keeps_its_own_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = made(tmp_path / ".oomph/runs/a")
    for number in range(30):
        (tmp_path / f"data/{number}").mkdir(parents=True)
    made(tmp_path / "z/late")
    listed: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(search.os, "scandir", lambda path: listed.append(str(path)) or scandir(path))  # type: ignore[func-returns-value]
    monkeypatch.setattr(search, "_MOST_ENTRIES", 20)
    assert own in runs_in(tmp_path)
    assert len(listed) < 12
