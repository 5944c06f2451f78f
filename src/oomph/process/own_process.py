"""Starts oomph's own Python processes without the PYTHON* variables meant for the script's Python.

PYTHONPATH may contain a module named like one that oomph imports, PYTHONTRACEMALLOC makes everything slow,
PYTHONINSPECT waits at a prompt. With -I, Python ignores all these variables; they stay in the environment, and reach
the script. Nothing but `os` and `sys` is imported here: any other module may come from PYTHONPATH.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

SEARCH_PATH = "OOMPH_SEARCH_PATH"
"""The variable with the folders, one per line, that an isolated Python searches last, so that they hide none of its
modules."""
_START = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "isolated_start.py")
_HARMLESS = frozenset((
    "PYTHONBREAKPOINT", "PYTHONCOERCECLOCALE", "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED",
    "PYTHONIOENCODING", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONSTARTUP",
    "PYTHONUNBUFFERED", "PYTHONUSERBASE", "PYTHONUTF8",
))  # fmt: skip
"""Variables that containers and users set everywhere; they change nothing for oomph."""


def is_disturbed() -> bool:
    """True if this process is affected by a variable meant for the script's Python."""
    return not sys.flags.isolated and any(map(_disturbs, os.environ))


def isolated_command(module: str, *words: str) -> "list[str]":
    """Return the command that runs one of oomph's modules as an isolated process, in an `isolated_environ`."""
    options = ["-B"] * sys.flags.dont_write_bytecode + ["-Xutf8"] * sys.flags.utf8_mode
    return [_python(), "-I", *options, _START, module, *words]


def isolated_environ(environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return the environment with the folders in which this Python finds modules."""
    return {**environ, SEARCH_PATH: "\n".join(os.path.abspath(entry) for entry in sys.path if entry)}


def without_own_variables(environ: "Mapping[str, str]") -> "dict[str, str]":
    """Return the environment without oomph's own variables."""
    return {name: value for name, value in environ.items() if not name.startswith("OOMPH_")}


def _disturbs(name: str) -> bool:
    """True for a variable that Python obeys, unlike PYTHON_VERSION and similar ones of container images."""
    return name.startswith("PYTHON") and name[6:7].isalpha() and name not in _HARMLESS and bool(os.environ[name])


def _python() -> str:
    """Return the path of the running Python; PYTHONEXECUTABLE makes sys.executable differ from it."""
    started = sys.orig_argv[0] if sys.orig_argv else ""
    return started if os.path.isabs(started) and "PYTHONEXECUTABLE" in os.environ else sys.executable
