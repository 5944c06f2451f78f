"""Finds out the width and colour support of the terminal behind a descriptor, and colours the beginnings of lines.

Used in both processes. Control characters must be escaped before text is coloured.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

BOLD, RED, GREEN, YELLOW, CYAN = "1", "31", "32", "33", "36"
Heads = Mapping[str, str]
"""Maps the beginning of a line, or a whole line, to its style."""
CHOICES = ("auto", "always", "never")
"""The values of `--color`."""
USUAL_WIDTH = 80
"""The width to assume for a pipe, a file, or a terminal that does not report its width."""
_NARROWEST, _WIDEST = 40, 100
_DUMB = ("", "dumb", "unknown")

_chosen = "auto"


class Marked(str):
    """A line of text in which a word is to be styled."""

    word: str
    style: str

    def __new__(cls, text: str, word: str, style: str) -> Marked:
        made = super().__new__(cls, text)
        made.word, made.style = word, style
        return made


def painted(text: str, heads: Heads) -> str:
    """Return the text with escape codes that colour the beginnings of its lines. The longest match wins."""
    return "\n".join(_line(line, heads) for line in text.split("\n"))


def marked(text: str, word: str, style: str) -> str:
    """Return the text with the first occurrence of `word` in colour."""
    before, found, after = text.partition(word)
    return f"{before}{_styled(found, style)}{after}" if found else text


def _line(line: str, heads: Heads) -> str:
    head = max((each for each in heads if _begins_with(line, each)), key=len, default="")
    if not head:
        return line
    word = head.lstrip()
    blank = head[: len(head) - len(word)]
    return f"{blank}{_styled(word, heads[head])}{line[len(head) :]}"


def _begins_with(line: str, head: str) -> bool:
    return line.startswith(head) and not line[len(head) : len(head) + 1].isalnum()


def _styled(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"


class Screen(NamedTuple):
    """The properties of the output that lines are shown on. The defaults describe a pipe or a file."""

    width: int = USUAL_WIDTH
    """The number of columns that text may fill."""
    terminal: bool = False
    columns: int = 0
    """The terminal's width in columns, or 0 if it is unknown or the terminal does not support control characters."""
    colour: bool = False


def choose(choice: str) -> None:
    """Set when to use colour (a value of `--color`), for every screen from now on."""
    global _chosen
    _chosen = choice


def screen_of(fd: int) -> Screen:
    """Return the screen behind a descriptor as it is now. Its window may be resized later."""
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
    """Return the screen behind a stream, which may be closed or have no descriptor."""
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
