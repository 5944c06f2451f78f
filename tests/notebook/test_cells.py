"""Cells run by an IPython shell in this process: their names, text and ids, and what counts as the user's code."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from types import SimpleNamespace

import pytest
from in_process_shell import run, shell_in_process

from oomph.script import sources
from oomph.script.cells import (
    executed_before,
    is_cell,
    running_id,
    site_in,
    source_file,
    text_of,
)
from oomph.script.environment_read import EnvironmentRead
from oomph.script.loop_location import enclosing_loops
from oomph.script.script_line import calling, is_of_script, raising
from oomph.script.shell import arguments, command_line
from oomph.script.sources import script_files


@pytest.fixture
def shell():
    with shell_in_process() as shell:
        yield shell


@pytest.fixture
def look(shell):
    """Return a function that runs cells, and returns `see` of the frame in which the last cell calls `look`."""

    def looking(*texts, see, cell_id=None):
        seen = []
        shell.user_ns["look"] = lambda: seen.append(see(sys._getframe(1)))
        for text in texts:
            run(shell, text, cell_id)
        assert seen, "the cells have called look()"
        return seen[-1]

    return looking


BELOW_MAGICS = ["look()", "%%time\nlook()", "%time look()", "%%timeit -n1 -r1\nlook()", "%%capture\nlook()"]


@pytest.mark.parametrize("text", [*BELOW_MAGICS, "def f():\n    look()\nf()", "async def f():\n    look()\nawait f()"])
def test_statement_of_a_cell_is_found_in_its_text(look, text):
    line, own = look(text, see=lambda frame: (frame.f_lineno, text_of(source_file(frame))))
    assert own.splitlines()[line - 1].strip() == "look()"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x = 1\nlook()", 2),
        ("%%time\nx = 1\nlook()", 3),
        ("x = 1\n%time look()", 2),
        ("%%capture\nx = 1\nlook()", 3),
        ("%%capture\n%%time\nx = 1\nlook()", 4),
        ("def f():\n    look()\nf()", 2),
        ("%%time\ndef f():\n    look()\nf()", 3),
    ],
)
def test_line_is_counted_from_the_top_of_the_cell(look, text, line):
    assert look("first = 1", text, see=lambda frame: site_in(frame, frame.f_lineno)) == f"cell [2], line {line}"


def test_text_of_a_function_below_a_magic_is_found_from_a_later_cell(look):
    defines = "%%time\nx = 1\ndef f():\n    look()"
    assert "look()" in look(defines, "%%time\ny = 2\nf()", see=lambda frame: text_of(source_file(frame)))


def test_running_cell_has_the_id_from_the_front_end(look):
    assert look("first = 1", "x = 1\nlook()", see=running_id, cell_id="1f2e") == "1f2e"


@pytest.mark.parametrize("cell_id", [None, "vscode-notebook-cell:/home/ada/a.ipynb#W2sZmlsZQ%3D%3D", ""])
def test_missing_or_temporary_cell_id_counts_as_none(look, cell_id):
    assert look("look()", see=running_id, cell_id=cell_id) is None


def test_file_name_shared_by_all_cells_is_recognised_as_a_cell(look, shell, monkeypatch, tmp_path):
    name = str(tmp_path / "all.py")
    monkeypatch.setattr(shell.compile, "get_code_name", lambda *_: name)
    own = look("x = 1\nlook()", see=lambda f: (is_cell(f.f_code.co_filename), site_in(f, 2), source_file(f)))
    assert own[:2] == (True, "cell [1], line 2")
    assert own[2] != name, "the text of another cell takes its place there"


def test_code_executed_before_a_call_ends_at_the_call(look):
    before = look("x = 1", "%%time\ny = 2\nlook()\nz = 3", see=executed_before)
    assert before.cells == ("", "x = 1")
    assert before.lines == (1, 2)
    assert before.running.startswith("get_ipython().run_cell_magic('time'")


def test_scripts_have_no_cells():
    assert executed_before(sys._getframe(0)) is None
    assert source_file(sys._getframe(0)) == __file__


# -- the user's own code ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", BELOW_MAGICS)
def test_cell_is_the_users_own_code(look, text):
    assert look(text, see=lambda frame: is_of_script(frame.f_code.co_filename))


@pytest.mark.parametrize("text", BELOW_MAGICS)
def test_place_of_a_line_does_not_depend_on_the_execution_count(shell, text):
    seen = []
    shell.user_ns.update(seen=seen, calling=calling)
    for _ in range(2):
        run(shell, text.replace("look()", "seen.append(calling())"))
    first, second = seen
    assert first.place == second.place == "<cell> <module> seen.append(calling())"
    assert first.site.startswith("cell [1], line ")
    assert second.site.startswith("cell [2], line ")


def test_line_that_raised_is_located_in_its_cell(shell):
    result = shell.run_cell("x = 1\n\n1 / 0", store_history=True)
    assert raising(result.error_in_exec).site == "cell [1], line 3"


@pytest.mark.parametrize(("module", "site"), [("IPython.core.history", None), ("matplotlib.figure", "figure.py:2")])
def test_call_that_ipython_makes_itself_has_no_line(module, site):
    installed = "/env/lib/site-packages"
    inner, outer = {"__name__": module, "seen": [], "calling": calling}, {"__name__": "tornado.ioloop"}
    saves = f"{installed}/{'/'.join(module.split('.'))}.py"
    exec(compile("def save():\n    seen.append(calling())", saves, "exec"), inner)
    exec(compile("def run(save):\n    save()", f"{installed}/tornado/ioloop.py", "exec"), outer)
    thread = threading.Thread(target=outer["run"], args=(inner["save"],))
    thread.start()
    thread.join(60)
    (line,) = inner["seen"]
    assert (line and line.site) == site


def test_loop_in_a_cell_is_found(look):
    (path, first, last), *_ = look("x = 1\nfor n in range(1):\n    look()", see=enclosing_loops)
    assert is_cell(path)
    assert (first, last) == (2, 3)


def test_environment_variable_read_by_a_cell_is_recorded(look, monkeypatch):
    monkeypatch.setattr(os.environ, "encodekey", os.environ.encodekey)
    monkeypatch.setenv("OOMPHS_EPOCHS", "3")
    watched = EnvironmentRead(os.environ)
    look("import os\nos.environ['OOMPHS_EPOCHS']\nlook()", see=lambda frame: None)
    assert "OOMPHS_EPOCHS" in watched.values()


def test_run_magic_does_not_change_the_names_of_script_files(look, shell, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shell, "starting_dir", str(tmp_path))
    monkeypatch.setattr(sources, "_MOST_FILES", 1 << 20)  # this process may have imported thousands of tests
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.py").write_text("")
    (tmp_path / "own_helper.py").write_text("")
    with contextlib.ExitStack() as undo:
        undo.callback(sys.modules.pop, "own_helper", None)
        before = look("import own_helper\nlook()", see=lambda _: script_files())
        after = look("%run elsewhere/x.py\nlook()", see=lambda _: script_files())
    assert before["own_helper.py"] == after["own_helper.py"]


# -- arguments --------------------------------------------------------------------------------------------------------

OF_VS_CODE = ["--ip=127.0.0.1", "--stdin=9003", "--Session.key=b'3c'", "--shell=9002", "--f=/tmp/kernel-v35.json"]


@pytest.mark.parametrize("words", [["-f", "/run/user/1/kernel-a.json"], OF_VS_CODE])
def test_kernel_arguments_are_not_taken_for_the_scripts(shell, monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["ipykernel_launcher.py", *words])
    monkeypatch.setattr(sys, "orig_argv", ["python", "-Xdev", "-m", "ipykernel_launcher", *words])
    assert arguments() == words, "a script may have such arguments as well"
    assert command_line() == sys.orig_argv
    kernel = SimpleNamespace(parent=SimpleNamespace(argv=words))
    monkeypatch.setattr(type(shell), "kernel", kernel, raising=False)
    assert arguments() == []
    assert command_line() == ["python", "-m", "ipykernel_launcher"]
    monkeypatch.setattr(sys, "argv", [""])  # as many notebooks do, for argparse
    assert command_line() == ["python", "-m", "ipykernel_launcher"]
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "5"])
    assert arguments() == ["--epochs", "5"], "a cell has set them"
