"""Which lines belong to the training loop that a call was made from, found in the script's source.

A loop of the script's own has no end that could be seen from outside. When it falls silent, its lines tell whether the
script still stands in it, or has come to something else that may take its time.
"""

from __future__ import annotations

import ast
from types import FrameType

_MOST_BYTES = 5_000_000
Lines = tuple[str, int, int]
"""(file, first line, last line)."""


def enclosing_loops(frame: FrameType | None) -> list[Lines]:
    """The outermost `for` or `while` around the line that each calling frame stands at, where there is one."""
    found = []
    while frame is not None:
        file = frame.f_code.co_filename
        lines = _outermost(file, frame.f_lineno, frame.f_code.co_firstlineno)
        if lines is not None:
            found.append((file, *lines))
        frame = frame.f_back
    return found


def _outermost(file: str, line: int, first_line: int) -> tuple[int, int] | None:
    """The widest loop around `line` that begins inside the function that begins at `first_line`."""
    if "site-packages" in file or "dist-packages" in file:
        return None
    try:
        with open(file, "rb") as source:
            tree = ast.parse(source.read(_MOST_BYTES))
    except (OSError, SyntaxError, ValueError):
        return None
    loops = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.While, ast.AsyncFor))
    ]
    around = [loop for loop in loops if loop[0] <= line <= loop[1] and loop[0] >= first_line]
    return max(around, key=lambda loop: loop[1] - loop[0], default=None)
