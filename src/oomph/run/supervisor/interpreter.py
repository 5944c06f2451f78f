"""Chooses the Python that runs the script, and looks for a different one if it lacks TensorFlow."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from oomph.errors import UsageError
from oomph.journal.events import ProcessStarted, UncaughtException
from oomph.journal.journal import Event, facts
from oomph.process.child import run
from oomph.process.command import IS_PYTHON, Command
from oomph.process.own_process import without_own_variables

_NAMES = ("python3", "python", "python3.13", "python3.12", "python3.11", "python3.10")
_TENSORFLOW = "tensorflow"
_IPYTHON = "IPython"
_WANTED = (_TENSORFLOW, "keras")
_MISSING = re.compile(r"No module named '([A-Za-z0-9_]+)")
_PROBE = (
    "import sys; path = sys.path[:]; sys.path[:] = filter(None, path); import importlib.util; sys.path[:] = path; "
    "sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
)
"""A program that looks for a module. It imports nothing from the working directory, which may contain that module."""
_PROBE_SECONDS = 20


def python_of(command: Command, wanted: str | None, say: Callable[[str], None]) -> str:
    """Return the Python that runs the script, or an empty string for a command line that chooses its own.

    Raises UsageError if this Python cannot run a notebook.
    """
    if command.form == "command" and wanted is None:
        return command.own_python
    python = choose_python(wanted, say)
    if command.form == "notebook" and not _has_ipython(python):
        raise UsageError(
            f"{python} has no IPython, which runs the cells of a notebook: install it there,"
            f' {shlex.quote(python)} -m pip install "oomph[notebook]"'
        )
    return python


def _has_ipython(python: str) -> bool:
    return has_itself(_IPYTHON) if python == sys.executable else has_module(python, _IPYTHON)


def choose_python(wanted: str | None, say: Callable[[str], None]) -> str:
    """Return the Python given with --python, otherwise oomph's, or the active environment's if only it has TensorFlow.

    Args:
        wanted: the value of --python, or None.
        say: called with a message if none was given and the choice is not oomph's own Python.
    """
    if wanted is None:
        if has_itself(_TENSORFLOW):
            return sys.executable
        active = next((python for python in _active(os.environ) if has_module(python, _TENSORFLOW)), None)
        if active is not None:
            say(f"{sys.executable}, which runs oomph, has no TensorFlow: using {active} from the active environment")
        return active or sys.executable
    path = os.path.expanduser(wanted)
    found = shutil.which(path)
    if found is None:
        raise UsageError(_why_not(path, wanted))
    if not IS_PYTHON.match(found) and not _is_python(found):
        raise UsageError(f"--python {wanted} is a program, but not a Python")
    return found


def _is_python(program: str) -> bool:
    """True if a program executes Python code, or cannot be asked: starting the script then shows why."""
    try:
        answer = run([program, "-c", "print('oomph')"], without_own_variables(os.environ), _PROBE_SECONDS)
    except OSError:
        return True
    return answer.output.split()[-1:] == [b"oomph"]


def _why_not(path: str, wanted: str) -> str:
    if os.path.isdir(path):
        return f"--python {wanted} is a folder, not a Python"
    if os.path.dirname(path) and os.path.exists(path):
        return f"--python {wanted} exists, but is not executable"
    return f"no such Python: {wanted}"


def has_itself(name: str) -> bool:
    """True if the Python that runs oomph can find the module. Does not import it."""
    return name in sys.modules or importlib.util.find_spec(name) is not None


def has_module(python: str, name: str) -> bool:
    """True if the given Python can find the module. Does not import it."""
    try:
        return run([python, "-c", _PROBE, name], without_own_variables(os.environ), _PROBE_SECONDS).returncode == 0
    except OSError:
        return False


def missing_module(events: Iterable[Event]) -> str | None:
    """Return `tensorflow` or `keras` if the script failed because its Python lacks it, otherwise None."""
    failed = (each for each in facts(events, UncaughtException) if each.type == "ModuleNotFoundError")
    return next((found for each in failed if (found := module_in(each.message)) is not None), None)


def module_in(message: str) -> str | None:
    """Return `tensorflow` or `keras` if the message says that it is missing, otherwise None."""
    found = _MISSING.search(message)
    return found[1] if found and found[1] in _WANTED else None


def advise(module: str, python: str, command: Command, verb: str = "run") -> str:
    """Return a sentence that says which Python has the module, and which command uses that Python."""
    other = next((other for other in candidates(python) if has_module(other, module)), None)
    if command.form == "command":
        use = ": use a Python that has it" if other is None else f"; {other} has it: use that Python"
        install = shlex.join([python, "-m", "pip", "install", module])
        return f"{python} has no {module}{use} in the command, or install the module: {install}"
    if other is not None:
        words = shlex.join(["oomph", verb, "--python", other, *command.words])
        return f"{python} has no {module}; {other} has it: {words}"
    return f"{python} has no {module}: choose a Python that has it with --python, or install the module there"


def started_python(events: Iterable[Event]) -> str | None:
    """Return the Python that actually ran the script, since a command line may start any Python."""
    found = facts((event for event in events if event.role == "script"), ProcessStarted)
    return next((each.python for each in found if each.python), None)


def candidates(python: str, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield other Pythons on this machine: active and local environments first, then PATH."""
    environ = os.environ if environ is None else environ
    seen = {_identity(python)}
    for path in _places(environ):
        identity = _identity(path)
        if identity not in seen and os.access(path, os.X_OK):
            seen.add(identity)
            yield path


def _active(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the Python of the active virtual or conda environment, then the first one on PATH."""
    seen = {_identity(sys.executable)}
    on_path = (shutil.which(name, path=environ.get("PATH")) for name in ("python", "python3"))
    for path in (*_of_environments(environ), *on_path):
        if path is not None and _identity(path) not in seen and os.access(path, os.X_OK):
            seen.add(_identity(path))
            yield path


def _of_environments(environ: Mapping[str, str]) -> Iterator[str]:
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(variable):
            yield os.path.join(environ[variable], "bin", "python")


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    yield from _of_environments(environ)
    for folder in (".venv", "venv"):
        yield os.path.join(os.getcwd(), folder, "bin", "python")
    for folder in environ.get("PATH", os.defpath).split(os.pathsep):
        for name in _NAMES:
            yield os.path.join(folder, name)


def _identity(python: str) -> tuple[str, str]:
    """Return a key that is the same for two names of one Python, but differs for two environments based on it."""
    return os.path.realpath(os.path.dirname(python)), os.path.realpath(python)
