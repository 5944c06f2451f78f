"""Files that a script appends to between fits."""

from __future__ import annotations

import os

import pytest

from oomph.script.opened_files import Appends, OpenedFiles

SCRIPT = """
def rows(path, count):
    for number in range(count):
        with open(path, "a") as file:
            file.write(f"row {number}\\n")
"""


@pytest.fixture
def attempt(tmp_path):
    """The files of one attempt, and what it reports about repeated appends."""
    watched = []

    def begin(number):
        told = []
        run = tmp_path / "run"
        run.mkdir(exist_ok=True)
        files = OpenedFiles(run, Appends(run, number, lambda path, site: told.append((os.path.basename(path), site))))
        watched.append(files)
        return files, told

    yield begin
    for files in watched:
        files._appends = None  # the audit hook remains for the life of the process


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    names = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(SCRIPT, str(path), "exec"), names)
    return names


def ended(files):
    files._appends = None


def test_repeated_append_in_a_later_attempt_is_reported_once(attempt, script, tmp_path):
    files, told = attempt(1)
    script["rows"](tmp_path / "results.csv", 3)
    assert told == []
    ended(files)
    _, told = attempt(2)
    script["rows"](tmp_path / "results.csv", 4)
    assert told == [("results.csv", "train.py:4")]


def test_append_new_to_this_attempt_is_not_reported(attempt, script, tmp_path):
    files, _ = attempt(1)
    script["rows"](tmp_path / "other.csv", 1)
    ended(files)
    _, told = attempt(2)
    script["rows"](tmp_path / "results.csv", 2)
    assert told == []


def test_append_after_reading_the_file_is_not_reported(attempt, script, tmp_path):
    files, _ = attempt(1)
    script["rows"](tmp_path / "results.csv", 1)
    ended(files)
    _, told = attempt(2)
    (tmp_path / "results.csv").read_text()
    script["rows"](tmp_path / "results.csv", 1)
    assert told == []


def test_append_by_a_callback_within_a_fit_is_not_reported(attempt, script, tmp_path):
    for number in (1, 2):
        files, told = attempt(number)
        files.begin()
        script["rows"](tmp_path / "results.csv", 1)
        files.end()
        ended(files)
        assert told == []


def test_log_files_are_not_reported_as_repeated_appends(attempt, tmp_path):
    import logging

    for number in (1, 2):
        files, told = attempt(number)
        handler = logging.FileHandler(tmp_path / "log.txt")
        handler.close()
        ended(files)
        assert told == []


def test_missing_run_directory_does_not_affect_appends(tmp_path, script):
    told = []
    files = OpenedFiles(tmp_path / "gone", Appends(tmp_path / "gone", 2, lambda *each: told.append(each)))
    script["rows"](tmp_path / "results.csv", 1)
    ended(files)
    assert told == []
    assert (tmp_path / "results.csv").read_text() == "row 0\n"
