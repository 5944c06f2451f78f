"""How many rows each part of the screen gets. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Wish(NamedTuple):
    """What a part would like, and what it makes do with."""

    rows: int
    least: int
    rank: int
    """Parts of a lower rank are served first."""


def allot(room: int, wishes: Sequence[Wish]) -> list[int]:
    """The rows of each part, in the order given; their sum is at most `room`.

    First each part gets its least, as far as there is room, then each the rest of its wish.
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
    """Of so many lines, how many are shown in so many rows, and how many are left to a line that counts them."""
    if count <= rows:
        return count, 0
    shown = max(rows - 1, 0)
    return shown, count - shown
