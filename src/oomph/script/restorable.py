"""Decides which files oomph may restore.

A run directory may come from anybody, and a file may hold a program, a setting or a pickle. So no file is restored in a
process that has used a checkpoint of elsewhere. Standard library only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_is_from_elsewhere = False


def take_from_elsewhere() -> None:
    """From now on, restore no text and no file in this process: the run directory may come from anybody."""
    global _is_from_elsewhere
    _is_from_elsewhere = True


def is_from_elsewhere() -> bool:
    """True if this process has used a checkpoint that was not written beside the key of this run."""
    return _is_from_elsewhere


def may_be_restored(path: str) -> bool:
    """True if oomph may write this file, which the script opens itself or a callback of it names.

    Hidden files and those of the Python installation belong to other programs as well, which have gone on since.

    Args:
        path: the absolute path.
    """
    below = os.path.relpath(path) if _is_below(path, os.getcwd()) else path
    is_pythons = any(_is_below(path, prefix) for prefix in {sys.prefix, sys.base_prefix} if prefix not in ("/", "/usr"))
    return not (_is_from_elsewhere or _is_hidden(below) or is_pythons or Path(path).is_symlink())


def _is_hidden(path: str) -> bool:
    return any(part.startswith(".") and part not in (".", "..") for part in path.split(os.sep))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
