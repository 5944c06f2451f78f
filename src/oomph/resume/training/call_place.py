"""Identifies the place where a script calls `fit`, and which iteration of the script's loops the call belongs to.

A line number alone is not enough: the script may be edited between two attempts, and may reach the same line in many
ways. A place is the chain of calls from the script's first line down to Keras, each with its file, function and
statement. The current values of loop variables and function arguments along the chain are recorded with it. In a
notebook the chain starts at the cell, and the cell's file name, which differs after every edit, is not part of it.
"""

from __future__ import annotations

import ast
import copy
import functools
import hashlib
import linecache
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from oomph.files.user_code import PACKAGE, is_users
from oomph.keras_bridge import fingerprints
from oomph.redaction.redaction import digest_of_secret, redacted_words
from oomph.script import cells

_LIBRARIES = ("keras", "tf_keras", "tensorflow")
_MACHINERY = ("<frozen", "runpy.py")
_CELL = "<cell>"
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_MOST_FRAMES = 30
_MOST_BYTES = 4 << 20
_FRACTION = r"(?:[-_.,]?\d{6}|[.,]\d{3})?"
CLOCK = re.compile(
    r"(?<!\d)(?:20\d\d[-_.]?[01]\d[-_.]?[0-3]\d"
    rf"(?:[-_T .]?[0-2]\d[-_:.h]?[0-5]\d(?:[-_:.m]?[0-5]\d{_FRACTION})?)?"
    rf"|1[4-9]\d{{8}}(?:\.\d+|\d{{3}}|\d{{6}}|\d{{9}})?|[0-2]\d[-_:][0-5]\d[-_:][0-5]\d{_FRACTION})(?!\d)"
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
)
"""Matches dates, times and random names such as scripts put into folder names."""
_EPOCH_SECONDS = (1.4e9, 2.2e9)


@dataclass(frozen=True)
class Place:
    """One call to `fit` or a similar function in the script."""

    site: str
    """The file and line to show in messages: "train.py:42"."""
    key: str
    """A digest of the call chain, which stays the same in every attempt even if lines have moved."""
    outline: str = ""
    """The same digest computed without constants, so that editing a constant does not change it."""
    turn: dict[str, Any] = field(default_factory=dict, compare=False)
    """The loop variables and function arguments along the chain, as text, by name."""
    cell: str | None = field(default=None, compare=False)
    """The id of the notebook cell that makes the call, or "" if unknown; None in a script."""
    cell_code: str = field(default="", compare=False)
    """A digest of the code of that cell, by which it is known when it runs again, if it has no id."""


def place_of_call() -> Place:
    """Return the place where the script's own code is currently calling Keras."""
    frames = list(frames_of_the_script())
    if not frames:
        return Place("?", "?")
    in_notebook = any(cells.is_cell(frame.f_code.co_filename) for frame in frames)
    while in_notebook and not is_users(frames[-1].f_code.co_filename):
        frames.pop()  # of threads and event loops, between IPython and the user's own code
    key, outline = (_digest(frames, with_constants) for with_constants in (True, False))
    turn: dict[str, Any] = {}
    for frame in reversed(frames):
        turn |= {name: seen for name in _names_of_the_turn(frame) if (seen := plain(frame.f_locals.get(name), name))}
    if not in_notebook:
        return Place(call_site(), key, outline, turn)
    return Place(call_site(), key, outline, turn, cells.running_id(frames[-1]) or "", cells.running_code(frames[-1]))


def _digest(frames: list[FrameType], with_constants: bool) -> str:
    chain = [
        (_file_name(f), cells.function_in(f.f_code), _statement(cells.source_file(f), f.f_lineno, with_constants))
        for f in frames
    ]
    return hashlib.blake2b(repr(chain).encode(), digest_size=8).hexdigest()


def call_site() -> str:
    """Return the file and line where the script's own code is currently calling Keras."""
    frame = next(frames_of_the_script(), None)
    return "?" if frame is None else cells.site_in(frame, frame.f_lineno)


def plain(value: Any, name: str = "") -> str:
    """Return a short string that represents a value the same way in every attempt, or "" if there is none.

    Keys and passwords, recognised by name or format, are replaced by a digest.
    """
    kind = type(value)
    if kind in (bool, int) or (kind is float and not _EPOCH_SECONDS[0] < value < _EPOCH_SECONDS[1]):
        return digest_of_secret(name, repr(value)) or repr(value)
    if kind is str:
        return digest_of_secret(name, value) or repr(without_clock(value))[:200]
    if issubclass(kind, np.generic):
        return digest_of_secret(name, str(value.item())) or repr(value.item())
    if issubclass(kind, np.ndarray) and value.dtype.kind in "biufc" and value.nbytes <= _MOST_BYTES:
        return f"{value.dtype}{list(value.shape)} {fingerprints.of_array(value)}"
    if kind in (tuple, list) and len(value) <= 16:
        return _plain_items(value, name)
    return ""


def _plain_items(items: Any, name: str) -> str:
    if all(type(each) is str for each in items) and redacted_words(items) != [*items]:  # "--token", "..."
        return digest_of_secret("password", " ".join(items))
    parts = [plain(each, name) for each in items]
    return f"({', '.join(parts)})" if parts and all(parts) else ""


def without_clock(text: str) -> str:
    """Remove dates, times, and names that differ in every process, such as those of temporary folders, from text."""
    temporary = tempfile.gettempdir() + os.sep
    if text.startswith(temporary):
        _, _, rest = text[len(temporary) :].partition(os.sep)
        text = f"<temporary>{os.sep}{rest}"
    return CLOCK.sub("<time>", text)


def frames_of_the_script() -> Iterator[FrameType]:
    """Yield the calling frames outside Keras, TensorFlow and oomph, innermost first, up to those of IPython."""
    frame: FrameType | None = sys._getframe(1)
    count, libraries = 0, _library_folders()
    while frame is not None and count < _MOST_FRAMES and not cells.is_of_interpreter(frame):
        path = frame.f_code.co_filename
        if not path.startswith(libraries) and not any(part in path for part in _MACHINERY):
            yield frame
            count += 1
        frame = frame.f_back


def _library_folders() -> tuple[str, ...]:
    """Return the full paths of the Keras, TensorFlow and oomph folders; a user's folder may share their names."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in _LIBRARIES)
    return (PACKAGE + os.sep, *(os.path.dirname(file) + os.sep for file in files if file))


def _file_name(frame: FrameType) -> str:
    """Return a frame's file, relative to the script's folder or to the folder that packages are installed in."""
    path = frame.f_code.co_filename
    if cells.is_cell(path):
        return _CELL
    for folder in (*sys.path[:1], *(entry for entry in sys.path if "-packages" in entry)):
        if folder and path.startswith(folder + os.sep):
            return os.path.relpath(path, folder)
    return os.path.basename(path)


@functools.lru_cache(maxsize=1024)
def _statement(path: str, line: int, with_constants: bool = True) -> str:
    """Return the normalised statement at a line, or the line itself if it starts a block."""
    node = _innermost(tree_of(path), line)
    if node is None or hasattr(node, "body"):
        return linecache.getline(path, line).strip()
    return ast.unparse(node if with_constants else _WithoutConstants().visit(copy.deepcopy(node)))


class _WithoutConstants(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(...), node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.copy_location(ast.Constant(...), node)


def _names_of_the_turn(frame: FrameType) -> list[str]:
    """Return the names of the function's arguments and of the loop variables around its current line."""
    code = frame.f_code
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    loops = _loop_variables(cells.source_file(frame), frame.f_lineno, code.co_firstlineno)
    return list(dict.fromkeys((*arguments, *loops)))


@functools.lru_cache(maxsize=1024)
def _loop_variables(path: str, line: int, since: int) -> tuple[str, ...]:
    """Return the names in the headers of the loops around a line, whose values change with each iteration."""
    loops = _loops_around(tree_of(path), line, since)
    heads = [loop.test if isinstance(loop, ast.While) else loop.target for loop in loops]
    return tuple(node.id for head in heads for node in ast.walk(head) if isinstance(node, ast.Name))


@functools.lru_cache(maxsize=64)
def tree_of(path: str) -> ast.Module | None:
    """Return a file's syntax tree, or None if the file cannot be parsed."""
    try:
        return ast.parse(cells.text_of(path))
    except (SyntaxError, ValueError, RecursionError):
        return None


def _innermost(tree: ast.Module | None, line: int) -> ast.stmt | None:
    """Return the innermost statement that contains a line."""
    found: ast.stmt | None = None
    for node in _statements(tree):
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node  # `ast.walk` yields outer statements before inner ones
    return found


def _loops_around(tree: ast.Module | None, line: int, since: int) -> list[Any]:
    """Return the loops around a line within its function, which starts at line `since`."""
    return [
        node
        for node in _statements(tree)
        if isinstance(node, _LOOPS)
        and max(since, node.lineno) <= line <= (node.end_lineno or 0)
        and node.lineno >= since
    ]


def _statements(tree: ast.Module | None) -> list[ast.stmt]:
    return [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
