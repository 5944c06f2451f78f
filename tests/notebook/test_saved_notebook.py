"""The file that a running notebook is saved to: always complete, not taken for the script's, kept across restarts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from notebook_runs import outputs, printed

from oomph.files.notebook_document import code_cells, parse_notebook
from oomph.notebook.as_script.saved_notebook import SavedNotebook
from oomph.script.opened_files import OpenedFiles


def document(*sources: str | list[str]) -> dict[str, Any]:
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [{**empty, "id": f"c{number}", "source": source} for number, source in enumerate(sources)]
    return parse_notebook(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode())


def run_cell(saved: SavedNotebook, cell: dict[str, Any], text: str) -> None:
    saved.begin(cell, 1).write("stdout", text)
    saved.save()


def test_outputs_of_an_earlier_attempt_stay_until_their_cell_runs_again(tmp_path: Path) -> None:
    path = tmp_path / "out.ipynb"
    earlier = document("one", "two", "three")
    saved = SavedNotebook(earlier, path)
    for cell in code_cells(earlier):
        run_cell(saved, cell, "earlier\n")
    saved.end()
    again = document("one", "two, edited", "three")
    saved = SavedNotebook(again, path, goes_on=True)
    assert [printed(cell) for cell in outputs(path)] == ["earlier\n", "", "earlier\n"]
    run_cell(saved, next(code_cells(again)), "again\n")
    assert [printed(cell) for cell in outputs(path)] == ["again\n", "", "earlier\n"]
    saved.end()
    SavedNotebook(document("one", "two", "three"), path).end()
    assert outputs(path) == [[], [], []]


def test_outputs_of_a_long_cell_are_saved_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oomph.notebook.as_script.saved_notebook._SECONDS", 0.05)
    cells, path = document("one"), tmp_path / "out.ipynb"
    saved = SavedNotebook(cells, path)
    try:
        saved.begin(next(code_cells(cells)), 1).write("stdout", "so far\n")
        until = time.monotonic() + 10
        while [printed(cell) for cell in outputs(path)] != ["so far\n"]:
            assert time.monotonic() < until, "not saved"
            time.sleep(0.01)
    finally:
        saved.end()


def test_saved_notebook_is_not_counted_among_the_scripts_files(tmp_path: Path) -> None:
    cells = document("one")
    saved = SavedNotebook(cells, tmp_path / "out.ipynb")
    files = OpenedFiles()
    files.begin()
    try:
        run_cell(saved, next(code_cells(cells)), "text")
        (tmp_path / "own.txt").write_text("")
        assert list(files.written) == [str(tmp_path / "own.txt")]
    finally:
        files.end()
        saved.end()


def test_partial_file_of_a_killed_attempt_is_removed(tmp_path: Path) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, timeout=20
    ).stdout
    left, alive = tmp_path / f".o[u]t.ipynb.{int(dead)}.partial", tmp_path / f".o[u]t.ipynb.{os.getppid()}.partial"
    for path in (left, alive):
        path.write_text("{")
    SavedNotebook(document(), tmp_path / "o[u]t.ipynb").end()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([alive.name, "o[u]t.ipynb"])


def test_failed_save_leaves_nothing_behind_and_the_old_notebook_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, path = document("one"), tmp_path / "out.ipynb"
    saved = SavedNotebook(cells, path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    run_cell(saved, next(code_cells(cells)), "text")
    monkeypatch.undo()
    assert [each.name for each in tmp_path.iterdir()] == ["out.ipynb"]
    assert path.read_bytes() == before
    saved.end()
    assert [printed(cell) for cell in outputs(path)] == ["text"]


def test_notebook_of_thousands_of_cells_is_not_saved_after_each(tmp_path: Path) -> None:
    cells, path = document(*["x"] * 3000), tmp_path / "out.ipynb"
    saved = SavedNotebook(cells, path)
    began = time.process_time()
    for number, cell in enumerate(code_cells(cells)):
        saved.begin(cell, number).write("stdout", f"{number}\n")
        saved.save_soon()
    assert time.process_time() - began < 5
    saved.end()
    assert [printed(cell) for cell in outputs(path)] == [f"{number}\n" for number in range(3000)]
