"""Draws strips as rows of rich text. All strips of a screen have the same columns, and so one time axis. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from rich.text import Text

from oomph.watch.charts import Marks, axis, bar, curve
from oomph.watch.history import SPAN_SECONDS, columns, seconds_per_column
from oomph.watch.strips import NEUTRAL, Strip, neutral

_LABEL, _FIGURE, _SCALE = 10, 19, 9
_BAR, _WIDE_BAR, _LONGEST_BAR = 8, 14, 24
_WIDE = 100
"""The screen width from which bars are longer."""
_LEAST_CURVE = 10


class Canvas(NamedTuple):
    """The space for strips, and what they have in common."""

    width: int
    """The width of the screen."""
    bar: int
    curve: int
    """The width of a curve, or 0 if the screen is too narrow for curves."""
    height: int
    """The number of rows of a strip."""
    until: float
    """The Unix time at the right end of the curves."""
    end: str
    """The same time in words."""
    marks: Marks


def canvas_of(width: int, height: int, until: float, end: str, marks: Marks) -> Canvas:
    """Divide a screen of this width into the columns of its strips, each of which is `height` rows high."""
    shortest = _BAR if width < _WIDE else _WIDE_BAR
    fixed = _LABEL + shortest + _FIGURE + 2
    length = curve_length(width - fixed - _SCALE - 2)
    if not length:
        return Canvas(width, min(shortest + max(width - fixed, 0), _LONGEST_BAR), 0, 1, until, end, marks)
    spare = width - fixed - _SCALE - 2 - length
    return Canvas(width, min(shortest + spare, _LONGEST_BAR), length, height, until, end, marks)


def curve_length(room: int) -> int:
    """Return the width of the longest curve that fits, or 0 if that is too short to be of use."""
    return SPAN_SECONDS // seconds_per_column(room) if room >= _LEAST_CURVE else 0


def axis_row(canvas: Canvas) -> Text:
    """Return the time axis of the strips below it."""
    return Text(" " * _place_of_curve(canvas) + axis(canvas.curve, canvas.marks, canvas.end), style="dim")


def rows_of(strip: Strip, canvas: Canvas) -> list[Text]:
    """Return the rows of a strip."""
    first = Text(f"{strip.label:<{_LABEL}} ").append_text(bar_of(strip, canvas.bar, canvas.marks))
    first.append(f" {strip.figure}", style=strip.style)
    if not canvas.curve:
        return [first]
    first.pad_right(_place_of_curve(canvas) - first.cell_len)
    rows = [first, *(Text(" " * _place_of_curve(canvas)) for _ in range(canvas.height - 1))]
    drawn = curve_of(strip, canvas.curve, canvas.height, canvas.until, canvas.marks)
    for row, part in zip(rows, drawn.rows, strict=True):
        row.append_text(part)
    if drawn.is_empty:
        return rows
    high, low = strip.unit(drawn.high), strip.unit(drawn.low)
    both = canvas.height == 1 and not strip.from_zero
    rows[0].append(f" {low}–{high}" if both else f" {high}", style="dim")
    if canvas.height > 1:
        rows[-1].append(f" {low}", style="dim")
    return rows


def _place_of_curve(canvas: Canvas) -> int:
    return _LABEL + 1 + canvas.bar + 1 + _FIGURE + 1


def bar_of(strip: Strip, width: int, marks: Marks) -> Text:
    """Return the bar of a strip, which is blank if it has none."""
    if strip.share is None:
        return Text(" " * width)
    peak = strip.peak / strip.full if strip.peak is not None and strip.full else None
    full, rest = bar(strip.share, width, marks, peak)
    return Text.assemble((full, strip.level(strip.share)), (rest, "dim"))


class Curve(NamedTuple):
    """A curve, and the values at the ends of its scale."""

    rows: Sequence[Text]
    low: float
    high: float
    is_empty: bool


def curve_of(strip: Strip, length: int, height: int, until: float, marks: Marks) -> Curve:
    """Return the curve of a strip."""
    values = columns(strip.points, until, SPAN_SECONDS // length, strip.fold)
    known = [value for value in values if value is not None]
    low = 0.0 if strip.from_zero else min(known, default=0.0)
    high = strip.full or max(known, default=0.0)
    high = high if high > low else low + (abs(low) or 1.0)
    shares = [None if value is None else (value - low) / (high - low) for value in values]
    rows = [_coloured(line, shares, strip) for line in curve(shares, height, marks)]
    return Curve(rows, low, high, not known)


def _coloured(line: str, shares: Sequence[float | None], strip: Strip) -> Text:
    if strip.level is neutral:
        return Text(line, style=NEUTRAL)
    styles = ["" if share is None else strip.level(share) for share in shares]
    groups = groupby(zip(line, styles, strict=True), key=itemgetter(1))
    return Text.assemble(*(("".join([mark for mark, _ in group]), style) for style, group in groups))
