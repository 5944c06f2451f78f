"""Decides which files oomph may restore.

A run directory may come from anyone, and a file may contain a program, a setting or a pickle. Files are therefore not
restored in a process that has used a foreign checkpoint. Standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_is_from_elsewhere = False


def take_from_elsewhere() -> None:
    """Stop restoring text and files in this process from now on, since the run directory may come from anyone."""
    global _is_from_elsewhere
    _is_from_elsewhere = True


def is_from_elsewhere() -> bool:
    """True if this process has used a checkpoint that was not sealed with this run's key."""
    return _is_from_elsewhere


def may_be_restored(path: str) -> bool:
    """True if oomph may write this file, which the script itself opens, or one of its callbacks names.

    Hidden files and files of the Python installation also belong to other programs, which may have used them since.

    Args:
        path: the file's absolute path.
    """
    below = os.path.relpath(path) if _is_below(path, os.getcwd()) else path
    is_pythons = any(_is_below(path, prefix) for prefix in {sys.prefix, sys.base_prefix} if prefix not in ("/", "/usr"))
    return not (_is_from_elsewhere or _is_hidden(below) or is_pythons or Path(path).is_symlink())


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in path.split(os.sep))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
