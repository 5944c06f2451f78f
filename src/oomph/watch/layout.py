"""Fits the parts of a screen into the rows of a terminal. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.text import Text

_HIGHEST = 6
"""The maximum height of a curve, in rows."""


class Wish(NamedTuple):
    """The number of rows that a part wants, and the minimum that it needs."""

    rows: int
    least: int
    rank: int
    """The rank of the part. Parts with a lower rank are served first."""


class ScreenPart(NamedTuple):
    """Rows that belong together."""

    wish: Wish
    draw: Callable[[int], Sequence[Text]]
    """Returns at most so many rows."""
    strips: int = 0
    """The number of strips in the part, all of which may become higher."""


def part_of(lines: Sequence[Text], least: int, rank: int, chosen: int = 0) -> ScreenPart:
    """Return a part of these lines. If they do not fit, the line at the index `chosen` is still shown."""
    return ScreenPart(Wish(len(lines), min(len(lines), least), rank), lambda rows: cut_to(lines, rows, chosen))


def rows_of_parts(parts: Sequence[ScreenPart], room: int) -> list[Text]:
    """Return the rows of all parts, with a blank row between two of them while there is room. At most `room` rows."""
    given = allot(room, [part.wish for part in parts])
    drawn = [part.draw(rows) for part, rows in zip(parts, given, strict=True)]
    spare = room - sum(map(len, drawn))
    lines: list[Text] = []
    for rows in drawn:
        if lines and rows and spare > 0:
            lines.append(Text())
            spare -= 1
        lines += rows
    return lines


def heights_of(spare: int, strips: Sequence[int]) -> list[int]:
    """Return the height of the strips in each part, given the number of spare rows and of strips.

    No part has higher strips than the first one that has any.
    """
    heights = [1] * len(strips)
    first = next((part for part, count in enumerate(strips) if count), 0)
    for height in range(2, _HIGHEST + 1):
        for part, count in enumerate(strips):
            if 0 < count <= spare and heights[first] >= height - (part == first):
                heights[part] += 1
                spare -= count
    return heights


def allot(room: int, wishes: Sequence[Wish]) -> list[int]:
    """Return the number of rows for each part, in the given order. Their sum is at most `room`.

    While there is room, each part first receives its minimum, and then the rest of the rows that it wants.
    """
    given = [0] * len(wishes)
    by_rank = sorted(range(len(wishes)), key=lambda part: wishes[part].rank)
    for limit in ("least", "rows"):
        for part in by_rank:
            more = min(max(getattr(wishes[part], limit) - given[part], 0), room)
            given[part] += more
            room -= more
    return given


def cut(count: int, rows: int) -> tuple[int, int]:
    """Return how many of `count` lines fit into the rows, and how many the last row reports as left out."""
    if count <= rows:
        return count, 0
    shown = max(rows - 1, 0)
    return shown, count - shown


def cut_to(lines: Sequence[Text], rows: int, chosen: int = 0) -> list[Text]:
    """Cut the lines to `rows` rows. If any are left out, the last row says how many."""
    shown, left = cut(len(lines), rows)
    begin = max(chosen - shown + 1, 0)
    more = [Text(f"… {left} more", style="dim")] if left and rows else []
    return [*lines[begin : begin + shown], *more]
