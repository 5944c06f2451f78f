"""History: the recent values of a metric with their times, and their rates, means and columns on a time axis. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from oomph.monitor.sample import Sample, Values

Series = tuple[tuple[float, float], ...]
"""Pairs of a Unix time and a value, in the order in which they were measured."""
SPAN_SECONDS = 120
"""The time that every chart covers, in seconds."""
_BRIDGED_SECONDS = 1.5
"""The longest gap between samples that is not shown as one. Samples are a second apart, and not quite regular."""


def series(points: Iterable[tuple[float, Values]], key: str) -> Series:
    """Return the values of one metric."""
    return tuple([(time, value) for time, values in points if (value := values.get(key)) is not None])


def rate(samples: Sequence[Sample], above: str, below: str, seconds: float) -> Series:
    """Return the growth of one training counter per unit of growth of another, over a sliding window.

    Args:
        samples: the samples, of which those without these counters do not count.
        above: the counter whose growth is divided.
        below: the counter to divide by, or "" for the time in seconds.
        seconds: the length of the window.
    """
    counts = [
        (sample.time, sample.training[above], sample.training[below] if below else sample.time)
        for sample in samples
        if above in sample.training and (not below or below in sample.training)
    ]
    found, begin = [], 0
    for at in range(1, len(counts)):
        time, upper, lower = counts[at]
        if upper < counts[at - 1][1] or lower < counts[at - 1][2]:
            begin = at  # the script was restarted, or the clock was turned back
        while begin + 1 < at and counts[begin + 1][0] <= time - seconds:
            begin += 1
        if lower > counts[begin][2]:
            found.append((time, (upper - counts[begin][1]) / (lower - counts[begin][2])))
    return tuple(found)


Fold = Callable[[Sequence[float]], float]


def seconds_per_column(width: int) -> int:
    """Return how many seconds a column covers on a chart of at most `width` columns, so that they divide the span."""
    return next(
        (each for each in range(1, SPAN_SECONDS) if SPAN_SECONDS % each == 0 and each * width >= SPAN_SECONDS),
        SPAN_SECONDS,
    )


def columns(points: Series, until: float, seconds: int, fold: Fold = fmean) -> list[float | None]:
    """Return one value for each column of a chart that ends at `until`, or None where nothing was measured.

    A column always covers the same seconds while the chart moves, so that its height does not flicker.
    """
    count = SPAN_SECONDS // seconds
    first = int(until // seconds) - count + 1
    held: list[list[float]] = [[] for _ in range(count)]
    newest = [0.0] * count
    for time, value in points:
        column = int(time // seconds) - first
        if 0 <= column < count and value - value == 0:  # it is finite
            held[column].append(value)
            newest[column] = time
    found: list[float | None] = []
    seen, shown = -math.inf, None
    for column, values in enumerate(held):
        if values:
            seen, shown = newest[column], values[0] if len(values) == 1 else fold(values)
        elif (first + column) * seconds - seen > _BRIDGED_SECONDS:
            shown = None
        found.append(shown)
    return found
