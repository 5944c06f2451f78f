"""A table for a terminal: in columns where it fits, else one block for each row. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.wrapping import wrapped


def table(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The lines of a table whose first row holds the heads.

    Where it is wider than `width`, each further row is a block: its first cell, and below it the others by their heads.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:<{room}}" for cell, room in zip(row, widths, strict=True)).rstrip() for row in rows]
    return (
        lines if max(map(len, lines)) <= width else [line for row in rows[1:] for line in _block(rows[0], row, width)]
    )


def _block(heads: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    room = max(map(len, heads[1:])) + 2
    cells = zip(heads[1:], row[1:], strict=True)
    return [row[0], *(wrapped(f"  {head:<{room}}{cell}", width, " " * (room + 2)) for head, cell in cells if cell)]
