"""Starts oomph's own Python processes so that they ignore the PYTHON* variables meant for the script's Python.

PYTHONPATH may contain a module with the same name as one that oomph imports, PYTHONTRACEMALLOC slows everything down,
and PYTHONINSPECT waits at a prompt. With -I, Python ignores all of these variables, but they stay in the environment
and reach the script. This module imports only `os` and `sys`, because any other module may come from PYTHONPATH.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SEARCH_PATH = "OOMPH_SEARCH_PATH"
"""The environment variable that lists the folders, one per line, that an isolated Python searches last, so that they
don't shadow its own modules."""
_START = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "isolated_start.py")
_HARMLESS = frozenset((
    "PYTHONBREAKPOINT", "PYTHONCOERCECLOCALE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED",
    "PYTHONIOENCODING", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONSTARTUP",
    "PYTHONUNBUFFERED", "PYTHONUSERBASE", "PYTHONUTF8",
))  # fmt: skip
"""Common variables, set by many containers and users, that don't affect oomph."""


def is_disturbed() -> bool:
    """True if this process is affected by a variable meant for the script's Python."""
    return not sys.flags.isolated and any(map(_disturbs, os.environ))


def isolated_command(module: str, *words: str) -> "list[str]":
    """Return the command that runs one of oomph's modules as an isolated process. Use it with `isolated_environ`."""
    options = ["-B"] * sys.flags.dont_write_bytecode + ["-Xutf8"] * sys.flags.utf8_mode
    return [_python(), "-I", *options, _START, module, *words]


def isolated_environ(environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return the environment, extended with the folders in which this Python looks for modules."""
    return {**environ, SEARCH_PATH: "\n".join(os.path.abspath(entry) for entry in sys.path if entry)}


def without_own_variables(environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return the environment without oomph's own variables."""
    return {name: value for name, value in environ.items() if not name.startswith("OOMPH_")}


def _disturbs(name: str) -> bool:
    """True for a variable that Python obeys, unlike PYTHON_VERSION and similar variables in container images."""
    return name.startswith("PYTHON") and name[6:7].isalpha() and name not in _HARMLESS and bool(os.environ[name])


def _python() -> str:
    """Return the path of the running Python, which differs from sys.executable if PYTHONEXECUTABLE is set."""
    started = sys.orig_argv[0] if sys.orig_argv else ""
    return started if os.path.isabs(started) and "PYTHONEXECUTABLE" in os.environ else sys.executable
