"""Supervised kernels are installed, listed and removed like any others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from oomph import cli
from oomph.errors import UsageError
from oomph.notebook.kernel import spec
from oomph.notebook.kernel.spec import Kernelspec, supervised

LIMIT = 60


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the user's kernelspecs. There are no others."""
    for name, folder in (("JUPYTER_DATA_DIR", "data"), ("JUPYTER_PATH", "none"), ("JUPYTER_CONFIG_DIR", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setattr(spec.sys, "prefix", str(tmp_path / "prefix"))
    return tmp_path / "data" / "kernels"


def made(kernels: Path, name: str, **document: Any) -> Path:
    folder = kernels / name
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (folder / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, **document}))
    return folder


def test_installed_kernel_is_listed_and_uninstalled(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kernel", "list"]) == 0
    assert "no oomph kernel is installed" in capsys.readouterr().out
    assert cli.main(["kernel", "install", "--user"]) == 0
    document = json.loads((kernels / "oomph" / "kernel.json").read_text())
    assert document["argv"] == [sys.executable, "-m", "oomph.notebook.kernel", "-f", "{connection_file}"]
    assert document["display_name"] == "Python 3 (oomph)"
    assert (document["language"], document["metadata"]["debugger"]) == ("python", True)
    assert (kernels / "oomph" / "logo-64x64.png").exists()
    capsys.readouterr()
    assert cli.main(["kernel", "list", "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (listed["name"], listed["trouble"], listed["folder"]) == ("oomph", "", str(kernels / "oomph"))
    assert cli.main(["kernel", "install", "--user"]) == 0  # again: replaces it
    assert cli.main(["kernel", "uninstall"]) == 0
    assert not (kernels / "oomph").exists()
    assert cli.main(["kernel", "uninstall"]) == 2


def test_folder_that_is_no_kernelspec_is_kept(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (kernels / "oomph").mkdir(parents=True)
    (kernels / "oomph" / "notes.txt").write_text("precious")
    assert cli.main(["kernel", "install", "--user"]) == 2
    assert f"{kernels / 'oomph'} is not a kernelspec: move it away first" in capsys.readouterr().err
    assert (kernels / "oomph" / "notes.txt").read_text() == "precious"


def test_uninstall_without_a_name_in_its_variable_removes_nothing(kernels: Path) -> None:
    assert cli.main(["kernel", "install", "--user"]) == 0
    assert cli.main(["kernel", "uninstall", ""]) == 2
    assert (kernels / "oomph").exists()


def test_kernel_like_another_differs_only_in_its_command_and_name(kernels: Path) -> None:
    argv = [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel", "-f", "{connection_file}", "--quiet"]
    model = made(
        kernels, "lab", argv=argv, env={"DATA": "/data"}, metadata={"debugger": True}, interrupt_mode="message", own=1
    )  # fmt: skip
    (model / "logo-svg.svg").write_text("<svg/>")
    assert cli.main(["kernel", "install", "--user", "--like", "lab"]) == 0
    document = json.loads((kernels / "lab-oomph" / "kernel.json").read_text())
    assert document == {
        **json.loads((model / "kernel.json").read_text()),
        "argv": [*argv[:2], "-m", "oomph.notebook.kernel", *argv[2:]],
        "display_name": "lab (lab-oomph)",
    }
    assert (kernels / "lab-oomph" / "logo-svg.svg").read_text() == "<svg/>"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["julia", "-i", "{connection_file}"], "oomph supervises Python kernels only"),
        (["python", "launcher.py", "-f", "{connection_file}"], "not started with python -m MODULE"),
        (["python", "-m", "oomph.notebook.kernel", "-f", "{connection_file}"], "already supervised"),
        ([], "oomph supervises Python kernels only"),
    ],
)
def test_kernel_that_oomph_cannot_supervise_is_refused(argv: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        supervised(Kernelspec("it", Path("it"), {"argv": argv}), "it-oomph")


@pytest.mark.parametrize("words", [["install", "--user", "--like", "broken"], ["uninstall", "broken"]])
def test_damaged_kernelspec_is_named_and_left_alone(
    kernels: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    damaged = made(kernels, "broken") / "kernel.json"
    damaged.write_text("{")
    assert cli.main(["kernel", *words]) == 2
    assert capsys.readouterr().err == (
        f"oomph: {damaged} is damaged: to remove this kernelspec, run jupyter kernelspec remove broken\n"
    )
    assert damaged.read_text() == "{"


def test_foreign_kernelspec_of_the_same_name_is_kept(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(kernels, "oomph")
    assert cli.main(["kernel", "install", "--user"]) == 2
    assert "kernelspec oomph is not oomph's: to replace it, first run" in capsys.readouterr().err
    assert cli.main(["kernel", "uninstall"]) == 2
    assert "is not one of oomph's" in capsys.readouterr().err
    assert (kernels / "oomph").exists()


def test_unknown_kernel_is_not_looked_up_in_the_working_directory(
    kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = [sys.executable, "-m", "oomph.notebook.kernel", "-f", "{connection_file}"]
    here = made(tmp_path / "elsewhere", "here", argv=argv)
    monkeypatch.chdir(here)
    assert cli.main(["kernel", "uninstall", "nosuch"]) == 2
    assert (here / "kernel.json").exists()


def test_unknown_model_and_deleted_environment_are_reported(kernels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kernel", "install", "--like", "nosuch"]) == 2
    assert "no kernelspec is named nosuch" in capsys.readouterr().err
    made(kernels, "gone", argv=["/no/such/env/bin/python", "-m", "oomph.notebook.kernel", "-f", "{connection_file}"])
    assert cli.main(["kernel", "list"]) == 0
    assert "its Python /no/such/env/bin/python is gone" in capsys.readouterr().out
    made(kernels, "lost", argv=["/no/such/env/bin/python", "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    assert cli.main(["kernel", "install", "--like", "lost"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_oomph_missing_from_the_kernels_environment_is_reported_in_one_sentence(
    kernels: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec env -u PYTHONPATH {sys.executable} -I -S "$@"\n')  # no site-packages
    other.chmod(0o755)
    made(kernels, "other", argv=[str(other), "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    assert cli.main(["kernel", "install", "--user", "--like", "other"]) == 2
    told = capsys.readouterr().err
    assert f"{other} -m pip install 'oomph[notebook]'" in told
    assert told.count("\n") == 1


def test_options_of_another_action_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["install", "lab"], ["list", "--user"], ["uninstall", "--like", "x"], ["install", "--json"]):
        assert cli.main(["kernel", *words]) == 2
        assert "takes no" in capsys.readouterr().err


def test_nbclient_shows_the_death_in_the_cell_that_caused_it(kernels: Path, tmp_path: Path) -> None:
    assert cli.main(["kernel", "install", "--user"]) == 0
    execute = """
import sys, nbformat, nbclient
from nbclient.exceptions import CellExecutionError
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code) for code in
    ["print('one')", "import os; os.kill(os.getpid(), 9)", "print('three')"]])
client = nbclient.NotebookClient(notebook, kernel_name="oomph", allow_errors="allow" in sys.argv)
try:
    client.execute()
except CellExecutionError as error:
    print("stopped by", error.ename)
for cell in notebook.cells:
    print(cell.execution_count, [output.get("ename") or output.get("text") for output in cell.outputs])
"""
    env = {**os.environ, "IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    words = [sys.executable, "-c", execute]
    ended = [
        subprocess.run([*words, *more], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
        for more in ([], ["allow"])
    ]
    assert ended[0].stdout.splitlines() == ["stopped by KernelDied", "1 ['one\\n']", "2 ['KernelDied']", "None []"]
    assert ended[1].stdout.splitlines() == ["1 ['one\\n']", "2 ['KernelDied']", "3 ['three\\n']"]


@pytest.mark.slow
def test_papermill_marks_the_cell_that_killed_the_kernel_as_failed(kernels: Path, tmp_path: Path) -> None:
    pytest.importorskip("papermill")
    assert cli.main(["kernel", "install", "--user"]) == 0
    sources = ["print('one')", "import os; os.kill(os.getpid(), 9)", "print('three')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    nbformat.write(notebook, tmp_path / "in.ipynb")
    env = {**os.environ, "IPYTHONDIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    words = [sys.executable, "-m", "papermill", "--kernel", "oomph", "in.ipynb", "out.ipynb"]
    ended = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert ended.returncode == 1
    cells = [cell for cell in nbformat.read(tmp_path / "out.ipynb", 4).cells if cell.cell_type == "code"]
    assert [cell.metadata.papermill.status for cell in cells] == ["completed", "failed", "pending"]
    assert [output.ename for output in cells[1].outputs] == ["KernelDied"]
