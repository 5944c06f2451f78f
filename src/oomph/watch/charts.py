"""Charts made of characters: bars, curves that are several rows high, and their time axis. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oomph.watch.history import SPAN_SECONDS


class Marks(NamedTuple):
    """The characters to draw with."""

    levels: str
    """The heights of a curve within a row, the lowest first."""
    parts: str
    """The widths of the last cell of a bar, the narrowest first."""
    rest: str
    peak: str
    tick: str
    chosen: str


BLOCKS = Marks("▁▂▃▄▅▆▇█", "▏▎▍▌▋▊▉█", "·", "│", "╷", "▸")
ASCII = Marks("_.-:=+*#", "=#", ".", "|", "|", ">")
"""The marks for terminals that cannot show the blocks."""


def bar(share: float, width: int, marks: Marks, peak: float | None = None) -> tuple[str, str]:
    """Return the full and the empty part of a bar, with a mark in the empty part at the share `peak`, if given."""
    cells = _clipped(share) * width
    whole = int(cells)
    part = int((cells - whole) * len(marks.parts))
    full = marks.parts[-1] * whole + (marks.parts[part - 1] if part else "")
    rest = [marks.rest] * (width - len(full))
    if peak is not None and (at := min(int(_clipped(peak) * width), width - 1) - len(full)) >= 0:
        rest[at] = marks.peak
    return full, "".join(rest)


def curve(shares: Sequence[float | None], height: int, marks: Marks) -> list[str]:
    """Return the rows of a curve, the uppermost first. A measured 0 has a mark, and what was not measured has none.

    A curve does not fill its uppermost cells, so that it can be told from the curve above it.
    """
    steps = len(marks.levels)
    top = steps * height - 1
    levels = [0 if share is None else round(min(share, 1.0) * top) or 1 if share > 0 else 1 for share in shares]
    glyphs = " " + marks.levels
    return [
        "".join([glyphs[0 if level <= base else min(level - base, steps)] for level in levels])
        for base in range(steps * (height - 1), -1, -steps)
    ]


def axis(width: int, marks: Marks, end: str) -> str:
    """Return the time axis of a chart, as wide as the chart. `end` is the time at its right end."""
    line = [" "] * width
    right = f"{end}{marks.tick}"
    line[width - len(right) :] = right[-width:]
    for share, seconds in ((0.0, 120), (0.5, 60), (0.75, 30), (0.25, 90)):
        at, label = round(share * width), f"{marks.tick}{_ago(seconds)}"
        if all(each == " " for each in line[max(at - 1, 0) : at + len(label) + 1]) and at + len(label) < width:
            line[at : at + len(label)] = label
    return "".join(line)


def _ago(seconds: int) -> str:
    return f"{seconds // 60} min ago" if seconds == SPAN_SECONDS else f"{seconds} s"


def _clipped(share: float) -> float:
    return min(max(share, 0.0), 1.0) if share == share else 0.0
