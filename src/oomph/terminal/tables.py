"""A table for a terminal: in columns where they fit, else one block for each row. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.terminal.wrapping import wrapped

_LEAST_ROOM = 20
"""The fewest columns left for the last column of a table if it is to be wrapped."""


def table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table whose first row holds the heads.

    A block is the first cell of a row, and below it the others by their heads.
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
