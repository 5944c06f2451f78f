"""Paths that data in a run directory may name: no program, hidden file or pickled objects.

A run directory may come from anybody. The script opens what it names itself; oomph restores the content of such a file,
and must not plant a program, a setting or a pickle there. Standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from oomph.script.run_when_read import is_run_when_read

_PROGRAMS = (
    *(".py", ".pyw", ".pyc", ".pyi", ".pyz", ".pth", ".so", ".sh", ".bash", ".zsh", ".fish", ".ipynb", ".ipy"),
    *(".desktop", ".service"),
)
_PICKLED = (".pkl", ".pickle", ".joblib", ".dill", ".pt", ".pth")


def is_of_a_program(path: str) -> bool:
    """True if the path names a file that Python or a shell runs."""
    return path.endswith(_PROGRAMS)


def is_hidden(path: str) -> bool:
    """True for a path with a part that begins with a dot, where programs keep their settings."""
    return any(part.startswith(".") and part not in (".", "..") for part in path.split(os.sep))


def may_be_restored(path: str, content: bytes) -> bool:
    """True if oomph may give this content to a file that the script opens.

    Args:
        path: absolute.
    """
    below = os.path.relpath(path) if _is_below(path, os.getcwd()) else path
    is_ours = any(_is_below(path, prefix) for prefix in {sys.prefix, sys.base_prefix} if prefix not in ("/", "/usr"))
    return not (
        is_of_a_program(path)
        or is_hidden(below)
        or path.endswith(_PICKLED)
        or is_run_when_read(content)
        or is_ours
        or Path(path).is_symlink()
    )


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
