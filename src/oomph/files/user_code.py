"""Tells the user's code from oomph's, Python's and installed packages' code. Both processes; standard library only.

This module judges files of the Python that runs it. `protocol/python_stacks.py` and `explain/evidence/tracebacks.py`
read paths of other Pythons, perhaps on other machines, and recognise them by their words.
"""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


OURS = PACKAGE + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
STANDARD = (_LIBRARY + os.sep, os.path.join(sys.exec_prefix, sys.platlibdir, os.path.basename(_LIBRARY), ""))
"""Python's own folders: `stdlib` and `platstdlib` of `sysconfig`, whose import every script would wait for."""
GENERATED = os.sep + "__autograph_generated_file"
"""The file name prefix of code that AutoGraph generates from functions, which does not count as the user's."""
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def is_installed(path: str) -> bool:
    """True for a file of an installed package."""
    return any(folder in path for folder in _INSTALLED)


def is_users(path: str) -> bool:
    """True for a file that belongs neither to oomph, nor to Python, nor to an installed package."""
    return not (path.startswith((OURS, *STANDARD)) or is_installed(path))
