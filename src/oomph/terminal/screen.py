"""Properties of the terminal behind a descriptor: its width, whether it takes colour. Used in both processes."""

from __future__ import annotations

import os
from typing import NamedTuple

CHOICES = ("auto", "always", "never")
"""The values of `--color`."""
USUAL_WIDTH = 80
"""The width for a pipe, a file, and a terminal that does not report its own."""
_NARROWEST, _WIDEST = 40, 100
_DUMB = ("", "dumb", "unknown")

_chosen = "auto"


class Screen(NamedTuple):
    """The place where lines are shown. The default is a pipe or a file."""

    width: int = USUAL_WIDTH
    """The number of columns that text may fill."""
    terminal: bool = False
    columns: int = 0
    """The terminal's width in columns; 0 if it is unknown, or if the terminal takes no control characters."""
    colour: bool = False


def choose(choice: str) -> None:
    """Choose when to use colour, by the value of `--color`, for every screen from now on."""
    global _chosen
    _chosen = choice


def screen_of(fd: int) -> Screen:
    """The screen behind a descriptor, as it is now: its window may change."""
    if not _is_terminal(fd):
        return Screen(colour=_chosen == "always")
    columns = _columns(fd)
    obeys = os.environ.get("TERM", "") not in _DUMB
    return Screen(
        width=max(_NARROWEST, min(columns, _WIDEST)) if columns else USUAL_WIDTH,
        terminal=True,
        columns=columns if obeys else 0,
        colour=_chosen == "always" or (_chosen == "auto" and obeys and not os.environ.get("NO_COLOR")),
    )


def screen_of_stream(stream: object) -> Screen:
    """The screen behind a stream, which may be closed, or replaced by a stream without a descriptor."""
    try:
        return screen_of(stream.fileno())  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return Screen(colour=_chosen == "always")


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def _columns(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns
    except OSError:
        return 0
