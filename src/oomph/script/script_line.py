"""Finds the line of the user's script behind a call or an error, and recognises it in a later attempt.

A line number is not enough, because a script may be edited between two attempts. The file name, the function and the
text of the line are compared instead. Standard library only.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, TracebackType
from typing import Any, NamedTuple, TypeVar

from oomph.files.user_code import GENERATED, OURS, is_installed, is_users
from oomph.script import cells

T = TypeVar("T")
_CELL = "<cell>"
_DECORATORS = contextlib.__file__
_MOST_FRAMES = 200
_LINES_BEFORE = 3

Spot = tuple[FrameType, int]
"""A frame and a line in it."""


class ScriptLine(NamedTuple):
    """A line of the script or, if none is known, of a library that the script uses."""

    file: str
    """The file's name; the same for all cells of a notebook."""
    line: int
    function: str
    source: str
    """The line's text, without surrounding whitespace."""
    before: str
    """The text of the few lines before it in the same function."""
    site: str
    """The file and line to show in messages: "train.py:42"."""

    @property
    def place(self) -> str:
        """The line's file, function and text, which are the same in every attempt even if the line has moved."""
        return f"{self.file} {self.function} {self.source}"


def calling() -> ScriptLine | None:
    """Return the line of the script that is running, or None if no script code is running."""
    return _line_of(_outwards(sys._getframe(1)))


def raising(error: BaseException) -> ScriptLine | None:
    """Return the line of the script that raised an exception, or None if the script was not involved."""
    return _line_of(reversed(list(_inwards(error.__traceback__))))


def calling_frames() -> Iterator[FrameType]:
    """Yield the running frames of the user's own code, innermost first."""
    for frame, _ in _outwards(sys._getframe(1)):
        if is_of_script(frame.f_code.co_filename):
            yield frame


def is_of_script(path: str) -> bool:
    """True if a path is one of the user's files or cells, and not generated code."""
    return is_users(path) and (not path.startswith("<") or cells.is_cell(path)) and GENERATED not in path


def caller() -> FrameType | None:
    """Return the innermost frame outside oomph, which may be in one of Python's own modules."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OURS):
        frame = frame.f_back
    return frame


def without_ours(traceback: TracebackType | None) -> TracebackType | None:
    """Remove oomph's frames from a traceback. A bare `raise` after this adds no frame of its own.

    Keras hides them in errors of its own functions, but neither in an interrupt nor in a custom loop.
    """
    links = list(_links(traceback))
    paths = [each.tb_frame.f_code.co_filename for each in links]
    decorators = zip(paths, [*paths[1:], ""], strict=False)
    ours = [path.startswith(OURS) or (path == _DECORATORS and inner.startswith(OURS)) for path, inner in decorators]
    kept = [link for link, is_ours in zip(links, ours, strict=True) if not is_ours]
    for link, following in zip(kept, [*kept[1:], None], strict=False):
        link.tb_next = following
    return kept[0] if kept else None


def unseen(function: Callable[..., T]) -> Callable[..., T]:
    """Let errors leave a function with the traceback that they would have without oomph."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> T:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            error.__traceback__ = without_ours(error.__traceback__)
            raise

    return call


def _links(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _line_of(spots: Iterable[Spot]) -> ScriptLine | None:
    """Return the innermost line of the user's own code or, if there is none, of an installed package."""
    installed, is_outside = None, False
    for frame, line in spots:
        path = frame.f_code.co_filename
        is_outside = is_outside or cells.is_of_interpreter(frame)  # the kernel itself is no package that a script uses
        if is_installed(path):
            installed = installed or (None if is_outside else (frame, line))
        elif is_users(path) and not path.startswith("<frozen ") and GENERATED not in path:
            return _told(frame, line)
    return None if installed is None else _told(*installed)


def _told(frame: FrameType, line: int) -> ScriptLine:
    import linecache  # late: most scripts never need it

    code, path = frame.f_code, cells.source_file(frame)
    file = _CELL if cells.is_cell(code.co_filename) else os.path.basename(path)
    numbers = range(max(code.co_firstlineno, line - _LINES_BEFORE, 1), line + 1)
    text = [linecache.getline(path, number, frame.f_globals) for number in numbers]
    site, source = cells.site_in(frame, line), text[-1].strip()
    return ScriptLine(file, line, cells.function_in(code), source, "".join(text[:-1]), site)


def _outwards(frame: FrameType | None) -> Iterator[Spot]:
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return
        yield frame, frame.f_lineno
        frame = frame.f_back


def _inwards(traceback: TracebackType | None) -> Iterator[Spot]:
    for _ in range(_MOST_FRAMES):
        if traceback is None:
            return
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
