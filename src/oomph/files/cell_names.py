"""Recognises notebook cells by the file names that IPython gives their code, and describes places in code for messages.

Used in both processes; standard library only.
"""

from __future__ import annotations

import os
import re

_FORMS = (
    r".*[/\\]ipykernel_\d+[/\\]\d+\.py",
    r"<ipython-input-(?P<count>\d+)-\w+>",
    r".*[/\\]ipython-input-(?:(?P<number>\d+)-)?\d+\.py",
    r"<timed (?:exec|eval)>|<magic-timeit>",
)
"""The file names of cells, as patterns: in ipykernel, a terminal's IPython, Colab, and below `%%time` or `%%timeit`."""
UNSOURCED = ("<timed exec>", "<timed eval>", "<magic-timeit>")
"""The file names that code below `%%time` or `%%timeit` gets in every cell; `linecache` does not have its text."""


def names_cell(path: str) -> bool:
    """True if a file name belongs to a cell."""
    return _match(path) is not None


def count_in(path: str) -> int | None:
    """Return the execution count in a cell's file name, or None if the name has none."""
    found = _match(path)
    count = found and (found.groupdict().get("count") or found.groupdict().get("number"))
    return int(count) if count else None


def site_of(path: str, line: int, count: int | None = None) -> str:
    """Return a file and line to show in messages: "train.py:42", or "cell [4], line 1".

    Args:
        count: the execution count of the cell, if its file name lacks it.
    """
    if count is None and not names_cell(path):
        return f"{os.path.basename(path)}:{line}"
    count = count_in(path) if count is None else count
    return f"a cell, line {line}" if count is None else f"{shown_cell(count)}, line {line}"


def shown_cell(count: int) -> str:
    """Return a cell's name for messages: "cell [4]"."""
    return f"cell [{count}]"


def _match(path: str) -> re.Match[str] | None:
    if "ipy" not in path and path not in UNSOURCED:  # quick, since scripts ask this about every frame
        return None
    return next((found for form in _FORMS if (found := re.fullmatch(form, path))), None)
