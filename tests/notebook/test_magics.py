"""`%oomph` and `%%oomph isolate` in an IPython shell in this process."""

from __future__ import annotations

import ast
import atexit
import os
import re
import time

import pytest

from oomph.errors import IsolatedError, UsageError
from oomph.journal.events import CellStarted, CheckpointSaved, FitFinished, FitStarted, Interrupted, Resumed
from oomph.journal.journal import Journal, read_journal
from oomph.notebook.evidence.kernel_board import KernelBoard
from oomph.notebook.magics import words as magics
from oomph.notebook.magics.isolated_cell import names_read, run_cell
from oomph.notebook.magics.kernel_status import cells_of_last_kernel, fits, status
from oomph.notebook.magics.named_call import arguments
from oomph.protocol.handover import Handover
from oomph.protocol.progress import Progress, ProgressBoard
from oomph.script import session
from oomph.script.session import Session


@pytest.fixture
def shell(tmp_path, monkeypatch):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    unregister = magics.register(made)
    yield made
    unregister()
    made.atexit_operations()
    atexit.unregister(made.atexit_operations)


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """Make this process the second attempt of a run, without really joining it."""
    handover = Handover(package="", run_dir=str(tmp_path), attempt=2)
    board, journal = ProgressBoard(tmp_path, 2), Journal(tmp_path, 2, "script")
    made = Session(handover, journal, owner=True, role="script", pid=os.getpid(), board=board, run_dir=tmp_path)
    monkeypatch.setattr(session, "_joined", made)
    yield made
    journal.close()


def ask(shell, line: str) -> object:
    result = shell.run_cell(line)
    result.raise_error()
    return result.result


# -- words ------------------------------------------------------------------------------------------------------------


NO_RECORD = "there is no record of the cells of an earlier kernel: they are recorded from the first import of Keras on"


def test_without_a_word_all_words_are_listed(shell, capsys):
    ask(shell, "%oomph")
    listed = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert listed == ["status", "doctor", "explain", "plan", "check", "fresh", "again", "isolate"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%oomph statsu", "oomph: %oomph has no word statsu; did you mean status?\n"),
        ("%oomph xyz", "oomph: %oomph has no word xyz; the words are status, doctor, "),
        ("%oomph isolate", "oomph: isolate takes a cell: put %%oomph isolate, with two percent signs, on its first"),
        ("%oomph check", "oomph: pass a model and its data, as you would to fit: %oomph check model, x, y\n"),
        ("%oomph plan model", "oomph: %oomph plan: NameError: name 'model' is not defined\n"),
        ("%oomph plan (", "oomph: the arguments are not valid Python: write %oomph plan model, x, y\n"),
        ("%oomph status", "oomph: no training has been guarded in this kernel yet\n"),
        ("%oomph again", "oomph: this notebook has no run directory, so no cells are recorded\n"),
        ("%oomph fresh", "oomph: this notebook runs under oomph run: to train from the beginning, start it with --st"),
    ],
)
def test_request_that_cannot_be_met_is_answered_in_one_sentence(shell, capsys, line, expected):
    assert ask(shell, line) is None
    captured = capsys.readouterr()
    assert captured.err.startswith(expected)
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.out + captured.err


def test_words_that_a_word_does_not_take_are_refused(shell, capsys):
    ask(shell, "%oomph again and again")
    assert capsys.readouterr().err == "oomph: %oomph again takes no further words: leave out and again\n"


def test_an_internal_error_is_reported_in_one_sentence(shell, capsys, monkeypatch):
    monkeypatch.setattr("oomph.doctor.observe.observe", lambda *_, **__: 1 / 0)
    ask(shell, "%oomph doctor")
    assert capsys.readouterr().err == "oomph: %oomph doctor failed: ZeroDivisionError: division by zero\n"


def test_unregistering_removes_both_magics(shell):
    assert "oomph" in shell.magics_manager.magics["line"]
    magics.register(shell)()
    assert "oomph" not in shell.magics_manager.magics["line"]
    assert "oomph" not in shell.magics_manager.magics["cell"]


def test_registering_takes_less_than_ten_milliseconds(shell):
    started = time.process_time()
    for _ in range(20):
        magics.register(shell)
    assert time.process_time() - started < 0.2


def test_doctor_prints_how_many_checks_passed(shell, capsys):
    ask(shell, "%oomph doctor")
    assert re.search(r"\d+ checks: \d+ passed", capsys.readouterr().out)


def test_explain_explains_the_kernels_last_error(shell, capsys, monkeypatch):
    monkeypatch.delattr("sys.last_value", raising=False)
    ask(shell, "%oomph explain")
    assert capsys.readouterr().out == "no cell of this kernel has raised an error yet\n"
    shell.run_cell(
        "raise MemoryError('Unable to allocate 9.00 GiB for an array with shape (1,) and data type float64')"
    )
    capsys.readouterr()
    ask(shell, "%oomph explain")
    text = capsys.readouterr().out
    assert text.startswith("MemoryError in this kernel: 1 fault found")
    assert "host-oom (OOM110), cause" in text
    assert "what to do" in text


def test_explain_names_lines_of_cells_as_other_messages_do(shell, capsys):
    shell.run_cell("x = 1\n[].missing", store_history=True)
    capsys.readouterr()
    ask(shell, "%oomph explain")
    text = capsys.readouterr().out
    assert re.search(r"cell \[\d+\], line 2", text), text
    assert "ipython-input" not in text


def test_explain_repeats_what_oomphs_own_error_says(shell, capsys):
    shell.run_cell(
        "from oomph.errors import TrainingStoppedError\nraise TrainingStoppedError('it stopped', 'Undo the change')"
    )
    capsys.readouterr()
    ask(shell, "%oomph explain")
    assert capsys.readouterr().out == "it stopped. Undo the change\n"


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model, x, y, epochs=5", (("M", [1], [2]), {"epochs": 5})),
        ("model x y epochs=5", (("M", [1], [2]), {"epochs": 5})),
        ("model, {'a': x}, y=y[0]", (("M", {"a": [1]}), {"y": 2})),
        ("*both", (("M", [1]), {})),
        ("", ((), {})),
    ],
)
def test_arguments_are_evaluated_with_or_without_commas(text, expected):
    assert arguments("check", text, {"model": "M", "x": [1], "y": [2], "both": ("M", [1])}) == expected


@pytest.mark.parametrize("text", ["model,, x", "model)", "nothing", "1 / 0, 2", "x for x in", "a b=", "yield"])
def test_arguments_that_cannot_be_evaluated_raise_usage_error(text):
    with pytest.raises(UsageError):
        arguments("check", text, {"model": "M"})


# -- status and again -------------------------------------------------------------------------------------------------


def test_fits_are_described_by_their_last_event(joined):
    for fact in [
        FitStarted(fit=0, site="cell [2], line 1"),
        FitFinished(fit=0, steps=60),
        Resumed(fit=1, kind="finished"),
        FitStarted(fit=2),
        Interrupted(fit=2, steps=10, saved=8),
        FitStarted(fit=3, epochs=5),
    ]:
        joined.journal.write(fact)
    there = Progress(attempt=2, fit=3, epoch=1, step=4, steps=90, saved=80)
    assert list(fits(read_journal(joined.run_dir), there)) == [
        ("fit 1", "finished, 60 steps in this kernel (cell [2], line 1)"),
        ("fit 2", "finished by an earlier kernel, whose result was returned"),
        ("fit 3", "stopped by you"),
        ("fit 4", "at epoch 2 of 5, step 5"),
    ]


def test_status_shows_directory_attempt_fits_and_checkpoint(shell, joined, capsys):
    joined.journal.write(FitStarted(fit=0))
    joined.journal.write(CheckpointSaved(name="step-00000080", steps=80))
    joined.board.write(0, 2, 40, 90, 80)
    ask(shell, "%oomph status")
    directory, attempt, fit, checkpoint = capsys.readouterr().out.splitlines()
    assert directory == f"run directory  {joined.run_dir}"
    assert attempt == f"attempt        2 (process {os.getpid()})"
    assert fit == "fit 1          at epoch 3, step 41"
    assert checkpoint == "checkpoint     step-00000080, 0 s ago: 80 of 90 steps saved"


def test_status_works_before_the_first_fit_and_without_a_run_directory(joined):
    assert [line.split("  ")[-1].strip() for line in status(joined)[2:]] == ["none yet", "none yet"]
    (line,) = status(Session(joined.handover, joined.journal, True, "script", os.getpid(), None, None))
    assert line == "fits are guarded, but neither checkpointed nor resumed"


def test_again_lists_the_cells_of_the_last_kernel_that_ran_any(tmp_path):
    ran = {1: [(1, "old = 1")], 2: [(1, "import keras"), (1, "import keras"), (3, "model.fit(x, y)")], 3: []}
    for attempt, cells in ran.items():
        journal = Journal(tmp_path, attempt, "script")
        for cell, line in cells:
            journal.write(CellStarted(cell=cell, line=line))
        journal.close()
    board = KernelBoard(tmp_path, 2)
    board.enter(3)
    _, *cells = cells_of_last_kernel(tmp_path, 4)
    assert cells == ["    [1]  import keras", "    [3]  model.fit(x, y)  (the kernel died in this cell)"]
    board.end()
    assert cells_of_last_kernel(tmp_path, 4)[-1] == "    [3]  model.fit(x, y)"
    assert cells_of_last_kernel(tmp_path, 2)[-1] == "    [1]  old = 1"
    assert cells_of_last_kernel(tmp_path, 1) == [NO_RECORD]


def test_again_uses_the_given_directory_if_no_run_is_joined(shell, tmp_path, capsys):
    magics.register(shell, tmp_path)
    ask(shell, "%oomph again")
    assert capsys.readouterr().out == f"{NO_RECORD}\n"


# -- isolate ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = x + 1", {"x"}),
        ("x = 1\ny = x", set()),
        ("x = x + 1", {"x"}),
        ("x += 1", {"x"}),
        ("import numpy as np\nnp.ones(3)", set()),
        ("def f(a):\n    b = a\n    return b + scale\nf(data)", {"scale", "data"}),
        ("class A:\n    size = width\n    def f(self): return depth", {"width", "depth"}),
        ("if ready:\n    z = 1\nprint(z)", {"ready", "print", "z"}),
        ("with open(path) as f:\n    f.read()\nf", {"open", "path"}),
        ("[i * k for i in items]", {"k", "items"}),
        ("del x", set()),
        ("def f():\n    global z\n    z += 1\nf()", {"z"}),
    ],
)
def test_names_that_may_be_read_before_assignment_are_found(source, expected):
    assert set(names_read(ast.parse(source))) - {"f", "A"} == expected


def isolate(shell, cell: str, names: str = "") -> None:
    shell.run_cell_magic("oomph", f"isolate {names}", cell)


def test_variables_are_sent_and_named_results_returned(shell, capfd):
    ask(shell, "import math\nx, kept = 3, [1]")
    isolate(shell, "kept.append(2)\ny = math.sqrt(x + 1)\npid = __import__('os').getpid()\n(y, kept)", "y pid")
    assert shell.user_ns["y"] == 2.0
    assert shell.user_ns["kept"] == [1]
    assert shell.user_ns["pid"] != os.getpid()
    assert capfd.readouterr().out == "(2.0, [1, 2])\n"


def test_expression_that_is_not_last_is_not_shown(capsys):
    run_cell("1\nfor i in range(3): i", {}, {}, ())
    run_cell("", {}, {}, ())
    assert capsys.readouterr().out == ""


def test_an_isolated_cell_does_not_inherit_oomphs_future_imports():
    cell = "def f(a: int): pass\nfound = f.__annotations__\n"
    assert run_cell(cell, {}, {}, ("found",)) == {"found": {"a": int}}


def shown(shell, capsys, cell: str) -> str:
    shell.run_cell(cell)
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_crash_of_an_isolated_cell_is_diagnosed_and_can_be_explained(shell, capsys):
    text = shown(shell, capsys, "%%oomph isolate\nimport ctypes; ctypes.string_at(0)")
    assert "oomph: the isolated cell's process ended by signal 11 (SIGSEGV); this kernel is unaffected" in text
    assert "segmentation-fault (CRS202): " in text
    assert "Traceback" not in text
    ask(shell, "%oomph explain")
    assert "1. segmentation-fault (CRS202), cause" in capsys.readouterr().out


def test_an_error_in_an_isolated_cell_shows_its_own_traceback_and_fails_the_cell(shell, capsys):
    ask(shell, "def half(n):\n    return n / 2")
    text = shown(shell, capsys, "%%oomph isolate\ndef f():\n    return 1 / 0\n\nf()")
    assert 'File "<isolated cell>", line 4, in <module>' in text
    assert "return 1 / 0" in text
    assert text.rstrip().endswith("ZeroDivisionError: division by zero")
    assert "oomph/notebook" not in text
    assert "oomph/process" not in text
    with pytest.raises(IsolatedError):
        isolate(shell, "f()")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%%oomph isolate 1x\npass", "oomph: 1x cannot be brought back: it is not a variable name"),
        ("%%oomph isolate\nx = (", "oomph: line 1 of the cell: '(' was never closed"),
        ("%%oomph isolate\n!ls", "oomph: an isolated cell must be plain Python, without % and ! commands"),
        ("%%oomph isolate\nlock", "oomph: lock, a lock, cannot be sent to another process: create it in the isolated"),
        ("%%oomph status\nx", "oomph: only %%oomph isolate takes a cell; the other words follow %oomph"),
        ("%%oomph isolate y\nx = 1", "NameError: the isolated cell has not assigned y, which it was to bring back"),
        ("%%oomph isolate one two\nimport threading\none, two = 1, threading.Lock()", "TypeError: two, a lock,"),
    ],
)
def test_a_cell_that_cannot_be_isolated_fails_with_the_reason(shell, capsys, cell, expected):
    ask(shell, "import threading\nlock = threading.Lock()")
    result = shell.run_cell(cell)
    assert not result.success
    captured = capsys.readouterr()
    assert expected in captured.out + captured.err
    assert "oomph/notebook" not in captured.out + captured.err


def test_objects_defined_in_the_notebook_need_cloudpickle(shell, capsys, monkeypatch):
    ask(shell, "class Own: pass\nown = Own()")
    monkeypatch.setattr("oomph.notebook.magics.isolated_cell.find_spec", lambda name: None)
    text = shown(shell, capsys, "%%oomph isolate\nown")
    assert "own is defined in this notebook: define it in the isolated cell too, or run pip install cloudpickle" in text
