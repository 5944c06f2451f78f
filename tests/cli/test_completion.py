"""The completion of bash, zsh and fish, in the shells themselves; names of runs are never expanded."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from oomph import cli
from oomph.cli.parser import parser_of

LIMIT = 60
HOSTILE = ("2026$(touch pwned)", "20 `touch pwned`", "20;touch pwned", "20*")
SHELLS = [pytest.param(s, marks=pytest.mark.skipif(shutil.which(s) is None, reason=s)) for s in ("bash", "zsh", "fish")]


@cache
def script(shell: str) -> str:
    """Return what `oomph completion SHELL` prints."""
    words = [sys.executable, "-m", "oomph", "completion", shell]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=LIMIT).stdout


@pytest.fixture
def folder(tmp_path):
    """A folder with scripts, other files and runs."""
    for name in ("train.py", "notebook.ipynb", "data.csv"):
        (tmp_path / name).touch()
    for name in ("20261130-train", *HOSTILE):
        (tmp_path / ".oomph/runs" / name).mkdir(parents=True)
    return tmp_path


def completed(folder: Path, shell: str, *words: str) -> list[str]:
    """Return what a shell offers for the last of the words, without descriptions."""
    (folder / "script").write_text(script(shell))
    if shell == "fish":
        program = 'source ./script; complete -C "$argv"'
        command = ["fish", "--no-config", "-c", program, " ".join(words)]
    else:
        program = 'source ./script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _oomph; printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "--norc", "-c", program, "bash", *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    (folder / "script").unlink()
    return [line.partition("\t")[0] for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("shell", SHELLS)
def test_shell_accepts_the_script_which_knows_every_option_of_every_verb(shell, tmp_path):
    (tmp_path / "script").write_text(script(shell))
    ended = subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert (ended.returncode, ended.stderr) == (0, "")
    named = set(re.findall(r"--[\w-]+", script(shell).replace("-l ", "--")))
    for verb, (module, _) in cli.COMMANDS.items():
        assert verb in script(shell)
        parser = parser_of(verb, importlib.import_module(module))
        assert [option for option in parser.long_options if option not in named] == []


@pytest.mark.parametrize("shell", [SHELLS[0], SHELLS[2]])
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ru",), {"run", "runs"}),
        (("run", "--ch"), {"--check", "--checkpoint-every"}),
        (("run", "--inexact", ""), {"allow", "refuse"}),
        (("kernel", "un"), {"uninstall"}),
        (("completion", ""), {"bash", "zsh", "fish"}),
        (("explain", "--dec"), {"--decisions"}),
        (("run", "--python", "py", "tr"), {"train.py"}),
        (("check", "note"), {"notebook.ipynb"}),
        (("run", "train.py", "--in"), set()),
        (("run", "-m", "--in"), set()),
        (("run", "--verify", "3", "train.py", "--in"), set()),
    ],
)
def test_words_are_completed_up_to_the_script(folder, shell, words, offered):
    assert set(completed(folder, shell, "oomph", *words)) - {""} == offered


@pytest.mark.parametrize("shell", [SHELLS[0], SHELLS[2]])
@pytest.mark.parametrize("runs_dir", ["", "kept in/one folder"])
@pytest.mark.parametrize("verb", ["explain", "report", "watch", "runs"])
def test_names_of_runs_are_completed_and_never_expanded(folder, shell, verb, runs_dir, monkeypatch):
    monkeypatch.delenv("OOMPH_RUNS_DIR", raising=False)
    if runs_dir:
        monkeypatch.setenv("OOMPH_RUNS_DIR", runs_dir)
        (folder / runs_dir).mkdir(parents=True)
        (folder / ".oomph").rename(folder / runs_dir / ".oomph")
    offered = completed(folder, shell, "oomph", verb, "20")
    assert "20261130-train" in offered
    assert len(offered) == 1 + len(HOSTILE)
    assert not list(folder.rglob("pwned"))


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        pytest.param(*SHELLS[0].values, ("run", "tr"), marks=SHELLS[0].marks),
        pytest.param(*SHELLS[0].values, ("explain", "20"), marks=SHELLS[0].marks),
        pytest.param(*SHELLS[2].values, ("explain", "20"), marks=SHELLS[2].marks),
    ],
)
def test_names_that_contain_newlines_are_not_offered_in_pieces(folder, shell, words):
    before = completed(folder, shell, "oomph", *words)
    (folder / "tr\nain.py").touch()
    (folder / ".oomph/runs/20\n30").mkdir()
    assert completed(folder, shell, "oomph", *words) == before


def test_names_of_runs_are_completed_after_resume(folder):
    offered = completed(folder, "bash", "oomph", "run", "--resume", "=", "20")
    assert "20261130-train" in offered
    assert r"2026\$\(touch\ pwned\)" in offered, "quoted, for the command line"


def test_unknown_shell_is_rejected(capfd):
    assert cli.main(["completion", "tcsh"]) == 2
    assert "invalid choice: 'tcsh'" in capfd.readouterr().err
