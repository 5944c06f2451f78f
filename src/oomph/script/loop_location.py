"""Finds the loop or `try` around a calling line in the script's source.

oomph cannot observe the end of a script's own loop. When its heartbeats stop, the loop's line range shows whether the
script is still inside it, or doing something else that may take a long time. A `try` around a call shows that the
script may expect an error from it.
"""

from __future__ import annotations

import ast
from types import FrameType

from oomph.files.user_code import is_installed
from oomph.script.cells import is_cell, text_of

_MOST_BYTES = 5_000_000
_BARE = frozenset(("BaseException",))
"""The name of the class that a bare `except` catches."""
Lines = tuple[str, int, int]
"""The location of a loop: file, first line, last line."""


def enclosing_loops(frame: FrameType | None) -> list[Lines]:
    """Return the outermost `for` or `while` loop around the current line of each calling frame that has one."""
    found = []
    while frame is not None:
        file = frame.f_code.co_filename
        lines = _outermost(file, frame.f_lineno, frame.f_code.co_firstlineno)
        if lines is not None:
            found.append((file, *lines))
        frame = frame.f_back
    return found


def catches(frame: FrameType, names: frozenset[str]) -> bool:
    """True if a frame's current line is inside a `try` with a clause for one of these exceptions.

    A `with contextlib.suppress(...)` counts as well.
    """
    tree = _tree_of(frame.f_code.co_filename)
    return tree is not None and any(_catches(node, frame, names) for node in ast.walk(tree))


def _catches(node: ast.AST, frame: FrameType, names: frozenset[str]) -> bool:
    """True if `node` surrounds the frame's line and catches an exception with one of these names."""
    if isinstance(node, ast.Try):
        body, kinds = node.body, [handler.type for handler in node.handlers]
    elif isinstance(node, ast.With):
        body, kinds = node.body, [item.context_expr for item in node.items if _suppresses(item.context_expr)]
    else:
        return False
    if not body[0].lineno <= frame.f_lineno <= (body[-1].end_lineno or 0) or node.lineno < frame.f_code.co_firstlineno:
        return False
    return any(not names.isdisjoint(_names_in(kind) if kind is not None else _BARE) for kind in kinds)


def _suppresses(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and "suppress" in _names_in(node.func)


def _names_in(node: ast.AST) -> set[str]:
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for each in ast.walk(node)
        if isinstance(each, (ast.Name, ast.Attribute))
    }


def _outermost(file: str, line: int, first_line: int) -> tuple[int, int] | None:
    """Return the outermost loop around `line` in the function that starts at `first_line`."""
    tree = _tree_of(file)
    if tree is None:
        return None
    loops = [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.While, ast.AsyncFor))
    ]
    around = [loop for loop in loops if loop[0] <= line <= loop[1] and loop[0] >= first_line]
    return max(around, key=lambda loop: loop[1] - loop[0], default=None)


def _tree_of(file: str) -> ast.Module | None:
    """Return the syntax tree of a user's file or cell, or None if it is installed or cannot be read."""
    if is_installed(file):
        return None
    try:
        if is_cell(file):
            return ast.parse(text_of(file))
        with open(file, "rb") as source:
            return ast.parse(source.read(_MOST_BYTES))
    except (OSError, SyntaxError, ValueError):
        return None
