"""Parses the command that the user asked to run, and checks that it can be started."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oomph.errors import UsageError
from oomph.files.notebook_document import SUFFIX, NotANotebookError, language_of, read_notebook
from oomph.files.user_code import PACKAGE

IS_PYTHON = re.compile(r"(?:.*/)?python[\d.]*\Z")
_ASSIGNMENT = re.compile(r"\w+=")
_ENDS_THE_OPTIONS = re.compile(r"-[A-VYZa-z?]*?([cmVh?])")
"""Matches a Python option that must come last, such as -c code, -m module or -Vh, even in a combination such as -Ic."""
_TAKE_A_MODULE = frozenset(("accelerate", "coverage", "ipython", "torchrun", "uv"))
"""Programs that accept `-m module` as Python does. Elsewhere, -m has other meanings: numactl binds memory with it."""
_NOTEBOOK_SCRIPT = os.path.join(PACKAGE, "notebook", "as_script", "start.py")
_FROM_STDIN = "a script from standard input cannot be started a second time: save it to a file"


@dataclass(frozen=True)
class Command:
    """A script, a notebook, a module, or any command line that eventually starts Python."""

    words: tuple[str, ...]
    """The words as typed, such as `train.py --epochs 3`, `-m package.train` or `-- env A=1 python train.py`."""
    out: str = ""
    """The file to save a notebook with its outputs to, or "" to save nothing."""

    @property
    def form(self) -> str:
        """The form of the command: "script", "notebook", "module" or "command"."""
        is_notebook = self.words[0].lower().endswith(SUFFIX)
        return {"-m": "module", "--": "command"}.get(self.words[0], "notebook" if is_notebook else "script")

    @property
    def name(self) -> str:
        """A short name, used in messages and for the run's folder."""
        if self.form == "module":
            return self.words[1]
        words = self.words[1:] if self.form == "command" else self.words
        scripts = [word for word in words if word.endswith((".py", SUFFIX))]
        return Path((scripts or words)[0]).stem or "run"

    @property
    def shown(self) -> str:
        """The command as it appears in a sentence: `train.py`, `-m package.train`, or the command line."""
        if self.form == "command":
            return shlex.join(self.words[1:])
        return " ".join(self.words[:2]) if self.form == "module" else self.words[0]

    @property
    def own_python(self) -> str:
        """The Python at the start of a command line, or an empty string if the command may start any Python."""
        words = after_env(self.words[1:]) if self.form == "command" else ()
        return (shutil.which(words[0]) or "") if words and IS_PYTHON.match(words[0]) else ""

    def argv(self, python: str) -> tuple[str, ...]:
        """Return the words to execute: a command line as it is, or `python` followed by the script or module."""
        if self.form == "command":
            return self.words[1:]
        if self.form == "notebook":
            saving = ("--out", self.out) if self.out else ()
            return (python, _NOTEBOOK_SCRIPT, *saving, *self.words)
        return (python, *self.words)


def parse_command(words: Sequence[str], verb: str = "run") -> Command:
    """Parse and check the command in `words`. Raises a one-sentence UsageError if it cannot run.

    `verb` is the oomph command that the words were passed to, which that sentence mentions.
    """
    if list(words) == ["-m"]:
        raise UsageError(f"specify the module to {verb}: oomph {verb} -m package.train")
    if not any(words) or list(words) == ["--"] or not words[0]:
        raise UsageError(f"specify the script to {verb}: oomph {verb} train.py")
    command = Command(tuple(words))
    if command.form == "command":
        return _check_program(command)
    if command.form in ("script", "notebook"):
        _check_script(command.words, verb)
    if command.form == "notebook":
        _check_notebook(command.words[0])
    return command


def _check_program(command: Command) -> Command:
    """Check a command line. `-- train.py` counts as a script, or a notebook, unless it is executable."""
    program = command.words[1]
    if shutil.which(program) is not None:
        _check_python(command.words[1:])
        return command
    if program.endswith((".py", SUFFIX)) and os.path.isfile(program):
        return parse_command(command.words[1:])
    raise UsageError(f"no such command: {program}")


def _check_python(words: Sequence[str]) -> None:
    """Reject Python without a script: it would read one from standard input, which is empty after a restart."""
    rest = list(after_env(words))
    if rest and IS_PYTHON.match(rest[0]) and not _given_to_python(rest[1:]):
        raise UsageError(_FROM_STDIN)


def what_runs(words: Sequence[str]) -> tuple[str, ...]:
    """Return the words that identify the program: the script, `-m` and the module, or the name of any other program.

    Environment variables, launchers, Python and their options are left out.
    """
    if not words or words[0] != "--":
        return tuple(words[: 2 if "-m" in words[:1] else 1])
    rest = [word for word in words[1:] if not _ASSIGNMENT.match(word)]
    takes_a_module = False
    for number, word in enumerate(rest):
        if IS_PYTHON.match(word):
            return _given_to_python(rest[number + 1 :]) or (word,)
        if word.endswith(".py") and not word.startswith("-"):
            return (word,)
        if word == "-m" and takes_a_module:
            return tuple(rest[number : number + 2])
        takes_a_module = takes_a_module or os.path.basename(word) in _TAKE_A_MODULE
    return tuple(after_env(rest)[:1])


def after_env(words: Sequence[str]) -> Sequence[str]:
    """Return the words without a leading `env A=1 B=2`."""
    if not words or os.path.basename(words[0]) != "env":
        return words
    return [word for word in words[1:] if not _ASSIGNMENT.match(word)]


def _given_to_python(words: Sequence[str]) -> tuple[str, ...]:
    """Return what a Python command line runs: a script, `-m` and a module, or `-c` and code; () for standard input."""
    options = iter(words)
    for word in options:
        if word == "-" or not word.startswith("-"):
            return () if word == "-" else (word,)
        ends = _ENDS_THE_OPTIONS.match(word)
        if ends is not None and not word.startswith("--"):
            return f"-{ends[1]}", word[ends.end() :] or next(options, "")
        if word.startswith("--") and word != "--check-hash-based-pycs":
            return (word,)  # --help, --version
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(options, None)
    return ()


def _check_script(words: Sequence[str], verb: str) -> None:
    """Reject a script that Python itself would reject with exit code 2, before oomph creates a run directory."""
    script = words[0]
    path = Path(script)
    if script == "-":
        raise UsageError(_FROM_STDIN)
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
        is_readable = os.access(path, os.R_OK | os.X_OK * is_folder)
    except PermissionError:
        is_folder = is_readable = False  # in a folder that this user is not allowed to enter
    except (OSError, ValueError):
        raise UsageError(f"no such script: {script}{_is_program(words, verb)}") from None
    if not is_readable:
        raise UsageError(f"{script} cannot be read: permission denied")
    if is_folder:
        if not (path / "__main__.py").exists():
            raise UsageError(f"{script} is a directory without a __main__.py, not a script")
        return
    if path.suffix not in (".py", SUFFIX, "") and not zipfile.is_zipfile(path) and b"\0" in _head(path):
        raise UsageError(f"{script} is not a Python script")


def _check_notebook(name: str) -> None:
    """Reject a file that is not a notebook of Python cells in format 4."""
    try:
        language = language_of(read_notebook(Path(name)))
    except NotANotebookError as error:
        convert = f"jupyter nbconvert --to notebook --nbformat 4 {shlex.quote(name)}"
        raise UsageError(f"{name} {error}" + (f": {convert}" if error.is_old else "")) from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    if language not in ("", "python"):
        raise UsageError(f"{name} is a notebook in {language}, and oomph runs Python only")


def _is_program(words: Sequence[str], verb: str) -> str:
    """Return a hint if the first word is a program, such as `python`, or an empty string if not."""
    if "/" in words[0] or shutil.which(words[0]) is None:
        return ""
    return f"; to run the program {words[0]}: {shlex.join(['oomph', verb, '--', *words])}"


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1024)
