"""The run of a notebook: one attempt for each kernel, and a new run once nothing is left to resume."""

from __future__ import annotations

import errno
import json
import os

import pytest

from oomph.errors import RunDirectoryError
from oomph.journal.events import AttemptEnded, FitFinished, FitStarted, Resumed
from oomph.journal.journal import Event, facts, read_journal
from oomph.notebook import kernel_run, run_of_notebook
from oomph.notebook.naming import Notebook
from oomph.notebook.run_of_notebook import set_aside
from oomph.protocol.progress import ProgressBoard
from oomph.run.directory.run_directory import FINISHED, RUNNING, read_record


@pytest.fixture
def notebook(tmp_path):
    return Notebook(tmp_path, "lesson")


def die(run: kernel_run.KernelRun) -> None:
    """Leave the run as a killed kernel does."""
    run.chronicle.close_attempt()
    run.directory.close()


def test_next_kernel_records_the_death_and_continues_the_run(notebook):
    run = kernel_run.begin(notebook, "ab" * 16)
    board = ProgressBoard(notebook.run_dir, 1)
    board.write(0, 1, 2, 34, 30)
    board.close()
    die(run)
    assert read_record(notebook.run_dir).status == RUNNING

    run = kernel_run.begin(notebook, "cd" * 16)
    handover = run.handover()
    assert (handover.attempt, handover.entropy, handover.run_dir) == (2, "ab" * 16, str(notebook.run_dir))
    [ended] = facts(read_journal(notebook.run_dir, 1), AttemptEnded)
    assert (ended.returncode, ended.steps, ended.saved) == (None, 34, 30)
    run.end()
    assert not (notebook.folder / ".oomph/notebooks/lesson.1").exists()


def test_kernel_with_nothing_left_to_resume_finishes_the_run(notebook):
    run = kernel_run.begin(notebook, "ab" * 16)
    board = ProgressBoard(notebook.run_dir, 1)
    board.write(0, 1, 2, 34, 30)
    board.close()
    run.end()
    assert read_record(notebook.run_dir).status == FINISHED
    assert json.loads((notebook.run_dir / "summary.json").read_text())["exit_code"] == 0
    assert notebook.entropy == ""
    run = kernel_run.begin(notebook, "cd" * 16)
    assert (run.handover().attempt, run.handover().entropy) == (1, "cd" * 16)
    assert read_record(notebook.folder / ".oomph/notebooks/lesson.1").status == FINISHED
    run.end()


def test_kernels_that_never_train_share_a_folder_but_no_seed(notebook):
    for attempt, entropy in enumerate(("ab" * 16, "cd" * 16, "ef" * 16), 1):
        run = kernel_run.begin(notebook, entropy)
        assert (run.handover().attempt, run.handover().entropy) == (attempt, entropy)
        run.end()
    assert os.listdir(notebook.folder / ".oomph/notebooks") == ["lesson"]


def test_second_kernel_cannot_use_the_same_run(notebook):
    run = kernel_run.begin(notebook, "")
    with pytest.raises(RunDirectoryError, match=f"is in use by another kernel or program, process {os.getpid()}"):
        kernel_run.begin(notebook, "")
    with pytest.raises(RunDirectoryError, match="is in use"):
        set_aside(notebook)
    run.end()
    assert set_aside(notebook) == notebook.folder / ".oomph/notebooks/lesson.1"
    assert set_aside(notebook) is None


def test_no_descriptor_is_leaked(notebook):
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        kernel_run.begin(notebook, "").end()
        with pytest.raises(RunDirectoryError):
            kernel_run.begin(Notebook(notebook.folder / "missing", "lesson"), "")
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_unwritable_folder_is_an_error_with_the_reason(notebook, monkeypatch, number):
    def fail(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(run_of_notebook, "make_own_parents", fail)
    with pytest.raises(RunDirectoryError, match=f"lesson cannot be written: {os.strerror(number)}$"):
        kernel_run.begin(notebook, "")


def test_file_in_place_of_the_folder_is_an_error(notebook):
    (notebook.folder / ".oomph").write_text("")
    with pytest.raises(RunDirectoryError, match="cannot be written"):
        kernel_run.begin(notebook, "")


def test_link_in_place_of_the_notebooks_folder_is_refused(notebook):
    (notebook.folder / "elsewhere").mkdir()
    (notebook.folder / ".oomph").mkdir()
    (notebook.folder / ".oomph/notebooks").symlink_to(notebook.folder / "elsewhere")
    with pytest.raises(RunDirectoryError, match="is a link"):
        kernel_run.begin(notebook, "")
    assert list((notebook.folder / "elsewhere").iterdir()) == []


def test_fit_that_was_resumed_but_not_finished_counts_as_unfinished():
    begun = [FitStarted(key="f-0"), FitStarted(key="g-0"), FitStarted(key="h-0"), Resumed(key="h-0", kind="exact")]
    over = [FitStarted(key="f-0"), FitFinished(key="f-0"), Resumed(key="g-0", kind="finished")]
    assert kernel_run.unfinished([Event(fact) for fact in begun + over]) == {"h-0"}
