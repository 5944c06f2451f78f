"""Wraps text between words to fit a width, and lays out tables. Pure; used in both processes."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from oomph.files.patterns import lazy_pattern

_GLUE = "\0"  # never occurs in text that is shown
_LAST_COLUMN = lazy_pattern(r".*\S {2,}(?=\S)")
_HEAD = lazy_pattern(r" *(?:\d{1,9}\. |[a-z ]{1,20}: )?")
_LEAST_ROOM = 20
"""The columns of the screen that must be left for a table's last column to be wrapped."""


def wrapped(text: str, width: int, hang: str = "", first: str = "", command: str = "") -> str:
    """Wrap the text into lines of at most `width` columns. A longer word gets a line to itself.

    Args:
        text: one paragraph.
        width: the number of columns to fill.
        hang: the text that starts each line after the first.
        first: the text that starts the first line.
        command: a command in the text, which stays on one line so that it can be pasted.
    """
    if command:
        before, found, after = text.rpartition(command)
        text = before + found.replace(" ", _GLUE) + after
    lines = textwrap.fill(
        text, width, initial_indent=first, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(_GLUE, " ")


def reflowed(text: str, width: int) -> str:
    """Wrap lines that are already laid out. Overflow continues below the last column of its line."""
    lines = text.split("\n")
    return "\n".join(line if len(line) <= width else wrapped(line, width, " " * _column(line, width)) for line in lines)


def shortened(text: str, most: int) -> str:
    """Return the text, or, if it is longer than `most` characters, the first words that fit, with an ellipsis."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    last = head if text[most - 1].isspace() else head.rpartition(" ")[0]
    return f"{(last if 2 * len(last) > most else head).rstrip(' .,:;')}…"  # a single long word, such as a path, is cut


def _column(line: str, width: int) -> int:
    """Return the offset of a line's last column, after two blanks or after a heading such as "exit codes: " or "1.

    ".
    """
    ends = (found.end() for pattern in (_LAST_COLUMN, _HEAD) if (found := pattern.match(line)))
    return next((end for end in ends if end <= width * 3 // 4), len(line) - len(line.lstrip()))


def table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the lines of a table whose first row contains the column headings.

    If the width is too small for columns, each row becomes a block that consists of its first cell and, below it, the
    other cells after their headings.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    before = sum(widths[:-1]) + 2 * (len(widths) - 1)
    if before + widths[-1] > width and before + _LEAST_ROOM > width:
        return [line for row in rows[1:] for line in _block(rows[0], row, width)]
    lines = ("  ".join(f"{cell:<{room}}" for cell, room in zip(row, widths, strict=True)).rstrip() for row in rows)
    return [wrapped(line, width, " " * before) for line in lines]


def _block(heads: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    room = max(map(len, heads[1:])) + 2
    cells = zip(heads[1:], row[1:], strict=True)
    return [row[0], *(wrapped(f"  {head:<{room}}{cell}", width, " " * (room + 2)) for head, cell in cells if cell)]
