"""`oomph run notebook.ipynb` runs the cells as Jupyter does, saves their outputs, and ends as a script ends."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import sys
from pathlib import Path

import nbformat
import pytest
from notebook_runs import finish, outputs, printed, run, started, wait_for, write

from oomph.errors import UsageError
from oomph.process.command import parse_command
from oomph.run.supervisor.launch import Request, launch

CELLS = (
    "!echo one; printf 'two\\n'\nlisted = !echo three\nprint(listed, _exit_code)",
    "%%bash\necho from bash",
    "%%time\nx = 3",
    "import asyncio\nawait asyncio.sleep(0.001)\nx + 1",
    "from IPython.display import HTML, display\nshown = display('old', display_id=True)\nHTML('<b>bold</b>')",
    "shown.update('new');",
    ("raises-exception", "raise KeyError('expected')"),
    ("skip-execution", "raise SystemExit(5)"),
    "",
    "%%writefile local.py\ny = 5",
    "%run local.py\nfrom local import y as imported\ny + imported",
    ("raises-exception", "input('name?')"),
    ("raises-exception", "%no_such_magic"),
    "for number in range(3):\n    print(number, end='\\r')\nprint()",
    "%%capture captured\n!echo hidden",
    "import sys, __main__\nprint(sys.argv, captured.stdout, __name__, __main__.x)",
    "%cd ..\nimport os\nprint(os.getcwd())",
    "None",
    ("raises-exception", "!sleep 60 &"),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return a finished run of a notebook in a subfolder, which uses many features of IPython."""
    folder = tmp_path_factory.mktemp("shell")
    (folder / "sub").mkdir()
    write(folder / "sub", *CELLS)
    return run(folder, "--out=nb.oomph.ipynb", "sub/nb.ipynb", "--epochs", "3")


def test_ipython_features_work(done):
    assert done.returncode == 0, done.stderr[-3000:]
    cells = done.outputs
    assert printed(cells[0]) == "one\ntwo\n['three'] 0\n"
    assert printed(cells[1]) == "from bash\n"
    assert "Wall time" in printed(cells[2])
    assert [each["data"] for each in cells[3]] == [{"text/plain": "4"}]
    assert cells[4][0]["data"] == {"text/plain": "'new'"}
    assert cells[4][1]["data"]["text/html"] == "<b>bold</b>"
    assert printed(cells[9]) == "Writing local.py\n"
    assert cells[10][0]["data"] == {"text/plain": "10"}
    assert printed(cells[13]) == "2\n"
    assert cells[14] == []
    assert printed(cells[15]) == "['nb.ipynb', '--epochs', '3'] hidden\n __main__ 3\n"


def test_notebook_runs_in_its_own_folder_as_in_jupyter(done):
    assert (done.folder / "sub/local.py").exists()
    assert printed(done.outputs[16]).splitlines()[-1] == str(done.folder)


def test_cell_tags_have_the_same_effect_as_in_nbclient(done):
    cells = done.outputs
    assert (cells[6][0]["output_type"], cells[6][0]["ename"]) == ("error", "KeyError")
    assert cells[7] == cells[8] == []
    counts = [cell["execution_count"] for cell in json.loads((done.folder / "nb.oomph.ipynb").read_text())["cells"]]
    assert counts[:10] == [1, 2, 3, 4, 5, 6, 7, None, None, 8]


def test_expected_error_is_not_recorded_as_uncaught(done):
    assert done.events("uncaught-exception") == []


def test_background_command_is_refused_as_in_a_kernel(done):
    assert (done.outputs[18][0]["ename"], done.outputs[17]) == ("OSError", [])


def test_input_is_refused_with_the_reason(done):
    (error,) = done.outputs[11]
    assert error["ename"] == "EOFError"
    assert "nobody can answer input() in a notebook under `oomph run`" in error["evalue"]


def test_error_that_ipython_only_prints_becomes_an_error_output(done):
    assert [each["output_type"] for each in done.outputs[12]] == ["stream", "error"]


def test_cell_output_is_shown_like_a_scripts(done):
    assert "one\ntwo\n['three'] 0\nfrom bash\n" in done.stdout
    assert "\n4\n" in done.stdout
    assert "None" not in done.stdout
    assert "expected" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[1] == "oomph: the outputs of 17 cells are saved to nb.oomph.ipynb as they arrive"
    assert lines[-1].startswith("oomph: finished without a fault")


def test_error_ends_the_notebook_as_it_ends_a_script(tmp_path):
    write(tmp_path, "def f(d):\n    return d['k']", "print('before')\nf({})", "print('never')")
    done = run(tmp_path, "nb.ipynb")
    assert (done.returncode, done.stdout) == (1, "before\n")
    traceback = done.stderr[done.stderr.index("Traceback") :].splitlines()
    assert [line for line in traceback if "IPython" in line or "oomph/notebook" in line] == []
    assert [line for line in traceback if line.startswith("    ") and "^" not in line] == [
        "    f({})",
        "    return d['k']",
    ]
    assert "KeyError: 'k'" in traceback
    _, second, third = done.outputs
    assert [each["output_type"] for each in second] == ["stream", "error"]
    assert "Cell" in "".join(second[1]["traceback"])
    assert third == []
    (recorded,) = done.events("uncaught-exception")
    assert recorded.data["type"] == "KeyError"


@pytest.mark.parametrize(
    ("cell", "code", "is_error"),
    [("import sys\nsys.exit(3)", 3, True), ("exit()", 0, False), ("raise SystemExit", 0, False)],
)
def test_system_exit_ends_the_notebook_with_its_code(tmp_path, cell, code, is_error):
    write(tmp_path, cell, "print('never')")
    done = run(tmp_path, "nb.ipynb")
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert "To exit" not in done.stderr
    first, second = done.outputs
    assert bool(first) == is_error
    assert second == []


def test_interrupt_ends_the_notebook_with_exit_code_130(tmp_path):
    write(tmp_path, "import time\nprint('ready', flush=True)\ntime.sleep(60)", "print('never')")
    with started(tmp_path, "nb.ipynb") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        done = finish(process, tmp_path)
    assert done.returncode == 130
    assert done.outputs[0][-1]["ename"] == "KeyboardInterrupt"


def test_outputs_are_saved_before_a_kill_and_replaced_by_the_next_attempt(tmp_path):
    marks = "import os, time\nfirst = not os.path.exists('mark')\nopen('mark', 'w').close()\nprint(first)"
    long = "print('so far')\nopen('long', 'w').close()\nif first:\n    time.sleep(60)\nprint('on')"
    write(tmp_path, marks, long, "print('last')")
    out = tmp_path / "nb.oomph.ipynb"
    with started(tmp_path, "nb.ipynb", SHELL="/bin/sh") as process:
        wait_for((tmp_path / "long").exists, process, 40)
        assert printed(outputs(out)[0]) == "True\n"
        os.kill(int((tmp_path / "run/owner-1").read_text()), signal.SIGKILL)
        done = finish(process, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "starting attempt 2" in done.stderr
    assert [printed(cell) for cell in done.outputs] == ["False\n", "so far\non\n", "last\n"]
    assert [path.name for path in tmp_path.glob(".*.partial")] == []


def test_unknown_fields_and_outputs_of_skipped_cells_are_kept(tmp_path):
    path = write(tmp_path, ("skip-execution", "1"), "2")
    document = json.loads(path.read_text())
    document["metadata"]["own"] = {"x": 1}
    document["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["kept\n"]}]
    document["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["stale\n"]}]
    document["cells"].append(nbformat.v4.new_markdown_cell("# heading"))
    path.write_text(json.dumps(document))
    assert run(tmp_path, "--out=result.ipynb", "nb.ipynb").returncode == 0
    saved = json.loads((tmp_path / "result.ipynb").read_text())
    assert saved["metadata"]["own"] == {"x": 1}
    assert saved["cells"][0] == document["cells"][0]
    assert saved["cells"][1]["outputs"][0]["data"] == {"text/plain": "2"}
    assert saved["cells"][2] == document["cells"][2]
    assert json.loads(path.read_text()) == document


def test_oomphs_magics_work_and_loading_them_starts_no_second_run(tmp_path):
    write(tmp_path, "%load_ext oomph", "%oomph status", "import oomph\noomph.disable()\noomph.enable()")
    done = run(tmp_path, "nb.ipynb")
    assert done.returncode == 0, done.stderr
    first, second, third = done.outputs
    assert first == third == []
    assert second
    assert not (tmp_path / ".oomph").exists()


def test_forked_process_leaves_the_notebooks_file_alone(tmp_path):
    write(
        tmp_path,
        "import os\nif os.fork() == 0:\n    print('child', flush=True)\n    os._exit(0)\nos.wait()\nprint('parent')",
    )
    done = run(tmp_path, "nb.ipynb")
    assert (done.returncode, sorted(done.stdout.split())) == (0, ["child", "parent"])
    assert printed(done.outputs[0]) == "parent\n"


def test_notebook_runs_on_if_its_outputs_cannot_be_saved(tmp_path):
    write(tmp_path, "import os\nos.rename('nb.oomph.ipynb', 'gone')\nos.mkdir('nb.oomph.ipynb')", "print('on')")
    done = run(tmp_path, "nb.ipynb")
    assert (done.returncode, done.stdout) == (0, "on\n"), done.stderr
    assert done.stderr.count("cannot be saved: Is a directory; the notebook runs on") == 1


# -- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("not json", "nb.ipynb is damaged: it is not a JSON document"),
        ("[]", "nb.ipynb is not a notebook: the document has no number nbformat"),
        (
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": 1}]}',
            "nb.ipynb is damaged: its cell 1, counted from 1, does not follow",
        ),
        (
            '{"nbformat": 3, "worksheets": []}',
            "nb.ipynb is a notebook in format 3; oomph reads format 4: jupyter nbconvert --to notebook --nbformat 4 ",
        ),
        (
            '{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "R"}}}',
            "nb.ipynb is a notebook in r, and oomph runs Python only",
        ),
        (
            '{"nbformat": 4, "cells": [], "metadata": {"language_info": {"name": "julia"}}}',
            "nb.ipynb is a notebook in julia",
        ),
    ],
)
def test_unusable_notebook_is_rejected_with_the_reason(tmp_path, monkeypatch, content, said):
    monkeypatch.chdir(tmp_path)
    Path("nb.ipynb").write_text(content)
    with pytest.raises(UsageError) as raised:
        parse_command(["nb.ipynb"])
    assert str(raised.value).startswith(said)


def test_python_without_ipython_is_reported_with_the_command_that_installs_it(tmp_path):
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    bare.chmod(0o755)
    write(tmp_path, "1")
    done = run(tmp_path, f"--python={bare}", "nb.ipynb")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"oomph: {bare} has no IPython, which runs the cells of a notebook: install it there,"
        f' {bare} -m pip install "oomph[notebook]"\n'
    )


def test_out_with_a_script_or_a_missing_folder_is_rejected(tmp_path):
    (tmp_path / "train.py").write_text("")
    done = run(tmp_path, "--out=x.ipynb", "train.py")
    assert (done.returncode, done.stderr) == (2, "oomph: --out is for the outputs of a notebook: leave it out\n")
    write(tmp_path, "1")
    done = run(tmp_path, "--out=absent/x.ipynb", "nb.ipynb")
    assert done.returncode == 2
    assert "the folder absent does not exist" in done.stderr


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("pipe", "is a device or pipe: name a file"),
        ("/dev/null", "is a device or pipe: name a file"),
        ("folder", "is a folder: name a file"),
        ("train.py", "name a file that ends in .ipynb"),
        ("x" * 300 + ".ipynb", "File name too long"),
    ],
)
def test_out_never_replaces_what_is_no_notebook(tmp_path, monkeypatch, out, said):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.mkdir("folder")
    Path("train.py").write_text("precious")
    write(tmp_path, "1")
    with pytest.raises(UsageError, match=re.escape(said)):
        launch(Request(("nb.ipynb",), out=out))
    assert Path("pipe").is_fifo()
    assert Path("/dev/null").is_char_device()
    assert Path("train.py").read_text() == "precious"


def test_out_is_written_through_a_link_with_its_permissions(tmp_path):
    (tmp_path / "real.ipynb").write_text("")
    (tmp_path / "real.ipynb").chmod(0o600)
    (tmp_path / "link.ipynb").symlink_to("real.ipynb")
    write(tmp_path, "print('one')")
    assert run(tmp_path, "--out=link.ipynb", "nb.ipynb").returncode == 0
    assert (tmp_path / "link.ipynb").is_symlink()
    assert printed(outputs(tmp_path / "real.ipynb")[0]) == "one\n"
    assert stat.S_IMODE((tmp_path / "real.ipynb").stat().st_mode) == 0o600


def test_rich_displays_as_in_jupyter(tmp_path):
    write(tmp_path, "from rich.console import Console\nConsole().print('a table')")
    done = run(tmp_path, "nb.ipynb")
    assert done.returncode == 0, done.stderr
    ((shown,),) = done.outputs
    assert shown["output_type"] == "display_data"
    assert shown["data"]["text/plain"] == "a table\n"
    assert "a table" in shown["data"]["text/html"]
    assert done.stdout == "a table\n"
