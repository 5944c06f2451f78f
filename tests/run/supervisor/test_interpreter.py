from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from oomph.errors import UsageError
from oomph.journal.journal import Event
from oomph.process.command import parse_command, what_runs
from oomph.run.supervisor import interpreter
from oomph.run.supervisor.interpreter import (
    advise,
    candidates,
    choose_python,
    has_module,
    missing_module,
    python_of,
    started_python,
)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")


def python_with_everything(environment: Path) -> Path:
    """A stand-in for an environment's Python, which finds every module."""
    python = environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    return python


def test_script_receives_its_arguments_unchanged() -> None:
    command = parse_command(["train.py", "--run-dir", "x", "--", "-m"])
    assert (command.form, command.name) == ("script", "train")
    assert command.argv("/py") == ("/py", "train.py", "--run-dir", "x", "--", "-m")


def test_module_is_started_with_dash_m() -> None:
    command = parse_command(["-m", "package.train", "--epochs", "3"])
    assert (command.form, command.name) == ("module", "package.train")
    assert command.argv("/py") == ("/py", "-m", "package.train", "--epochs", "3")


def test_command_is_started_unchanged() -> None:
    command = parse_command(["--", "env", "A=1", sys.executable, "train.py"])
    assert (command.form, command.name) == ("command", "train")
    assert command.argv("/py") == ("env", "A=1", sys.executable, "train.py")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("train.py --epochs 3", "train.py"),
        ("-m one --epochs 3", "-m one"),
        ("-- python a.py b.py", "a.py"),
        ("-- env A=1 python -u -m one x", "-m one"),
        ("-- env A=1 ./train --epochs 3", "./train"),
        ("-- ./train --epochs 3", "./train"),
        ("-- numactl -N 0 -m 0 python a.py -m x", "a.py"),
        ("-- srun --nodelist=n1 --chdir=old.py .venv/bin/python3.12 -u -W error a.py", "a.py"),
        ("-- mpirun -np 2 -m 1 ./a.py 3", "./a.py"),
        ("-- uv run --with x -m one 3", "-m one"),
        ("-- coverage run a.py -m x", "a.py"),
        ("-- python -Icpass x", "-c pass"),
        ("-- python", "python"),
        ("-- A=1", ""),
        ("--", ""),
    ],
)
def test_program_name_excludes_its_arguments(words: str, named: str) -> None:
    assert what_runs(words.split()) == tuple(named.split())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("env CUDA_VISIBLE_DEVICES=0 python a.py", "env CUDA_VISIBLE_DEVICES=1 python a.py"),
        ("srun --nodelist=n1 python -m one", "srun --nodelist=n2 --mem=8G python -u -m one"),
    ],
)
def test_same_script_is_recognised_however_it_was_started(one: str, other: str) -> None:
    assert what_runs(["--", *one.split()]) == what_runs(["--", *other.split()])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("numactl -N 0 -m 0 python a.py", "numactl -N 0 -m 0 python b.py"),
        ("python -c a", "python -c b"),
        ("env A=1 ./one", "env A=1 ./two"),
        ("uv run -m one", "uv run -m two"),
    ],
)
def test_different_scripts_behind_one_launcher_are_distinguished(one: str, other: str) -> None:
    assert what_runs(["--", *one.split()]) != what_runs(["--", *other.split()])


def test_script_after_two_dashes_is_run_as_a_script() -> None:
    assert parse_command(["--", "train.py", "-v"]).argv("/py") == ("/py", "train.py", "-v")


def test_folder_with_a_main_module_is_run_as_a_script(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    with pytest.raises(UsageError, match="directory without a __main__"):
        parse_command(["app"])
    (tmp_path / "app" / "__main__.py").write_text("")
    assert parse_command(["app"]).form == "script"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "specify the script"),
        (["-m"], "specify the module to run: oomph run -m package.train"),
        (["--"], "specify the script"),
        (["missing.py"], "no such script: missing.py"),
        (["-"], "standard input"),
        (["--", "no-such-program-here"], "no such command"),
        (["python3", "train.py", "a b"], r"no such script: python3; .*: oomph run -- python3 train.py 'a b'$"),
    ],
)
def test_command_that_cannot_be_run_is_rejected_with_the_reason(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_command(words)


def test_notebook_is_run_by_oomphs_own_script(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my notebook.ipynb").write_text('{"nbformat": 4, "cells": []}')
    command = parse_command(["my notebook.ipynb", "--epochs", "3"])
    assert parse_command(["--", *command.words]) == command
    assert (command.form, command.name, command.shown) == ("notebook", "my notebook", "my notebook.ipynb")
    python, script, *words = command.argv("python3")
    assert (python, words) == ("python3", ["my notebook.ipynb", "--epochs", "3"])
    assert Path(script).is_file()
    assert replace(command, out="out.ipynb").argv("python3")[2:4] == ("--out", "out.ipynb")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_script_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "train.py").chmod(0)
    with pytest.raises(UsageError, match="cannot be read"):
        parse_command(["train.py"])


def test_python_running_oomph_is_the_default() -> None:
    said: list[str] = []
    assert choose_python(None, said.append) == sys.executable
    assert choose_python(sys.executable, said.append) == sys.executable
    with pytest.raises(UsageError, match="no such Python: /no/python"):
        choose_python("/no/python", said.append)
    assert said == []


def test_file_that_is_not_a_python_is_rejected_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\n")
    for path, why in ((tmp_path / "python", "exists, but is not executable"), (tmp_path, "is a folder, not a Python")):
        with pytest.raises(UsageError) as refused:
            choose_python(str(path), pytest.fail)
        assert str(refused.value) == f"--python {path} {why}"


@pytest.mark.parametrize("program", ["ls", "echo", "sh", "true", "cat"])
def test_program_that_is_not_a_python_is_rejected_before_it_gets_the_script(program: str) -> None:
    with pytest.raises(UsageError, match=f"^--python {program} is a program, but not a Python$"):
        choose_python(program, pytest.fail)


def test_python_with_another_name_is_accepted(tmp_path: Path) -> None:
    wrapper = tmp_path / "with-our-modules"
    wrapper.write_text(f'#!/bin/sh\necho welcome\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    assert choose_python(str(wrapper), pytest.fail) == str(wrapper)


@pytest.mark.parametrize("where", ["VIRTUAL_ENV", "CONDA_PREFIX", "PATH"])
def test_oomph_without_tensorflow_announces_the_active_environment_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    said: list[str] = []
    active = python_with_everything(tmp_path / "active")
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(interpreter, "has_itself", lambda name: False)
    assert choose_python(None, said.append) == sys.executable
    assert said == []
    monkeypatch.setenv(where, str(active.parent if where == "PATH" else tmp_path / "active"))
    assert choose_python(None, said.append) == str(active)
    (line,) = said
    assert str(active) in line
    assert sys.executable in line
    assert choose_python(sys.executable, said.append) == sys.executable
    monkeypatch.setattr(interpreter, "has_itself", lambda name: True)
    assert choose_python(None, said.append) == sys.executable
    assert len(said) == 1


def test_python_specified_on_the_command_line_is_not_replaced(tmp_path: Path, monkeypatch) -> None:
    active = python_with_everything(tmp_path / "active")
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    monkeypatch.setattr(interpreter, "has_itself", lambda name: False)
    said: list[str] = []
    own = parse_command(["--", "env", "A=1", sys.executable, "train.py"])
    assert python_of(own, None, said.append) == sys.executable
    assert python_of(parse_command(["--", "sh", "-c", "python3 train.py"]), None, said.append) == ""
    assert said == []
    with pytest.raises(UsageError, match="no such Python"):
        python_of(own, "/no/python", said.append)
    assert python_of(parse_command(["train.py"]), None, said.append) == str(active)
    assert len(said) == 1


def test_module_is_located_without_an_import(tmp_path: Path) -> None:
    assert has_module(sys.executable, "json")
    assert not has_module(sys.executable, "no_such_module_here")
    assert not has_module(str(tmp_path / "no-python"), "json")


def test_missing_tensorflow_is_recognised() -> None:
    def uncaught(kind: str, message: str) -> Event:
        return Event.named("uncaught-exception", {"type": kind, "message": message})

    assert missing_module([uncaught("ModuleNotFoundError", "No module named 'tensorflow'")]) == "tensorflow"
    assert missing_module([uncaught("ModuleNotFoundError", "No module named 'keras.layers'")]) == "keras"
    assert missing_module([uncaught("ModuleNotFoundError", "No module named 'pandas'")]) is None
    assert missing_module([uncaught("ValueError", "No module named 'tensorflow'")]) is None


def test_python_with_the_missing_module_is_suggested_with_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    other = python_with_everything(tmp_path / "venv")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    said = advise("tensorflow", "/usr/bin/python3", parse_command(["train.py", "--name", "a b"]))
    assert said.endswith(f"; {other} has it: oomph run --python {other} train.py --name 'a b'")
    command = parse_command(["--", sys.executable, "train.py"])
    assert advise("keras", "/usr/bin/python3", command) == (
        f"/usr/bin/python3 has no keras; {other} has it: use that Python in the command, or install the module: "
        "/usr/bin/python3 -m pip install keras"
    )
    monkeypatch.delenv("VIRTUAL_ENV")
    other.unlink()
    assert "--python" in advise("tensorflow", "/usr/bin/python3", parse_command(["train.py"]))


def test_python_used_for_a_command_is_the_one_that_first_ran_the_script() -> None:
    def started(role: str, python: str) -> Event:
        return Event.named("process-started", {"python": python}, role=role)

    assert started_python([started("worker7", "/w"), started("script", "/py"), started("script", "/other")]) == "/py"
    assert started_python([]) is None


def test_python_already_in_use_is_not_a_candidate(tmp_path: Path) -> None:
    environ = {"PATH": os.path.dirname(sys.executable)}
    assert sys.executable not in list(candidates(sys.executable, environ))


@pytest.mark.parametrize(
    "line",
    [
        "python3 train.py",
        "python3 -u -X dev train.py -",
        "python3 -c pass",
        "python3 -Ic pass",
        "python3 -cpass",
        "python3 -W error -m train",
        "python3 --check-hash-based-pycs never train.py",
        "python3 --version",
        "python3 -V",
        "env A=1 python3 train.py",
        "env -i python3",
        "sh -c 'python3 - < train.py'",
    ],
)
def test_command_that_says_what_python_runs_is_accepted(line):
    assert parse_command(["--", *shlex.split(line)]).form == "command"


@pytest.mark.parametrize(
    "line", ["python3", "python3 -", "python3 -u", "python3 -i -W error", "env A=1 python3 -X dev -"]
)
def test_python_reading_its_script_from_standard_input_is_rejected(line):
    with pytest.raises(UsageError, match="a script from standard input cannot be started a second time"):
        parse_command(["--", *shlex.split(line)])
