"""Which Python runs the script, and which other Python could when that one lacks TensorFlow."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping

from oomph.errors import UsageError
from oomph.journal import Event
from oomph.recovery.supervisor.command import Command

_NAMES = ("python3", "python", "python3.13", "python3.12", "python3.11", "python3.10")
_WANTED = ("tensorflow", "keras")
_MISSING = re.compile(r"No module named '([A-Za-z0-9_]+)")
_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
_PROBE_SECONDS = 20


def choose_python(wanted: str | None) -> str:
    """The Python named with --python, else oomph's own."""
    if wanted is None:
        return sys.executable
    found = shutil.which(os.path.expanduser(wanted))
    if found is None:
        raise UsageError(f"no such Python: {wanted}")
    return found


def has_module(python: str, name: str) -> bool:
    """Whether this Python finds the module, without importing it."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("OOMPH_")}
    try:
        probe = subprocess.run(
            [python, "-c", _PROBE, name],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return probe.returncode == 0


def missing_module(events: Iterable[Event]) -> str | None:
    """`tensorflow` or `keras`, when the script ended because its Python lacks it."""
    for event in events:
        if event.name == "uncaught-exception" and event.data.get("type") == "ModuleNotFoundError":
            found = _MISSING.search(str(event.data.get("message")))
            if found and found[1] in _WANTED:
                return found[1]
    return None


def advise(module: str, python: str, command: Command) -> str:
    """One sentence: which Python has the module, and what to type to use it."""
    if command.form != "command":
        for other in candidates(python):
            if has_module(other, module):
                words = shlex.join(["oomph", "run", "--python", other, *command.words])
                return f"{python} has no {module}, but {other} has: {words}"
    return f"{python} has no {module}: name a Python that has it with --python, or install it there"


def candidates(python: str, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Other Pythons on this machine: active and local environments first, then PATH."""
    environ = os.environ if environ is None else environ
    seen = {_identity(python)}
    for path in _places(environ):
        identity = _identity(path)
        if identity not in seen and os.access(path, os.X_OK):
            seen.add(identity)
            yield path


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(variable):
            yield os.path.join(environ[variable], "bin", "python")
    for folder in (".venv", "venv"):
        yield os.path.join(os.getcwd(), folder, "bin", "python")
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in _NAMES:
            yield os.path.join(folder, name)


def _identity(python: str) -> tuple[str, str]:
    """Equal for two names of one Python, different for two environments on one Python."""
    return os.path.realpath(os.path.dirname(python)), os.path.realpath(python)
