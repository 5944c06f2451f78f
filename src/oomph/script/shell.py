"""Inspects the IPython shell that runs in this process, if any, without importing IPython. Standard library only."""

from __future__ import annotations

import itertools
import sys
from typing import Any

_NO_PYTHON = ("#", "%pip", "!pip", "%conda", "%cd")
"""The beginnings of lines that run no Python: comments, and commands that install packages or change the folder."""


def running() -> Any:
    """Return IPython's shell, or None in a process without one."""
    module = sys.modules.get("IPython.core.interactiveshell")
    return getattr(getattr(module, "InteractiveShell", None), "_instance", None)


def is_kernel() -> bool:
    """True if this process is a Jupyter kernel, rather than IPython in a terminal."""
    return getattr(running(), "kernel", None) is not None


def execution() -> int:
    """Return the number of the running cell execution, or 0 without a shell."""
    return int(getattr(running(), "execution_count", 0))


def arguments() -> list[str]:
    """Return the script's arguments: none in a kernel, whose own are for its client and may contain the sockets' key.

    `%run` gives a script its own arguments even in a kernel.
    """
    words = sys.argv[1:]
    return [] if is_kernel() and words == _arguments_of_kernel() else words


def command_line() -> list[str]:
    """Return this process's command line; for a kernel, only Python and the module, without the client's arguments."""
    words = sys.orig_argv
    if not is_kernel():
        return list(words)
    return [*words[:1], *(words[words.index("-m") :][:2] if "-m" in words else ())]


def _arguments_of_kernel() -> list[str]:
    """Return the arguments that the kernel has parsed, including any that a supervisor added."""
    found = getattr(getattr(running().kernel, "parent", None), "argv", None)
    return list(found) if isinstance(found, (list, tuple)) else []


def is_untouched() -> bool:
    """True if the user has run no Python in this shell before the line that enables oomph."""
    cells = getattr(getattr(running(), "history_manager", None), "input_hist_raw", None)
    if not isinstance(cells, list):
        return False
    lines = (line.strip() for cell in cells for line in str(cell).splitlines())
    before = itertools.takewhile(lambda line: not line.startswith("%load_ext oomph"), lines)
    return all(line == "" or line.startswith(_NO_PYTHON) for line in before)
