"""Distinguishes the user's code from that of oomph, Python and installed packages.

Used in both processes; standard library only. This module judges only files that belong to the Python installation
running it. `protocol/python_stacks.py` and `explain/evidence/tracebacks.py` read paths from other installations,
perhaps on other machines, and recognise them by the words in the paths.
"""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


OURS = PACKAGE + os.sep
_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
STANDARD = (_LIBRARY + os.sep, os.path.join(sys.exec_prefix, sys.platlibdir, os.path.basename(_LIBRARY), ""))
"""Python's own folders, `stdlib` and `platstdlib` in `sysconfig`, whose import would delay every script."""
GENERATED = os.sep + "__autograph_generated_file"
"""The prefix of the file names of code that AutoGraph generates from functions, which is not the user's own."""
_INSTALLED = tuple(f"{os.sep}{name}{os.sep}" for name in ("site-packages", "dist-packages"))


def is_installed(path: str) -> bool:
    """True for a file in an installed package."""
    return any(folder in path for folder in _INSTALLED)


def is_users(path: str) -> bool:
    """True for a file that belongs neither to oomph nor to Python nor to an installed package."""
    return not (path.startswith((OURS, *STANDARD)) or is_installed(path))
