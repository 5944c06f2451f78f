"""Axes: round ticks and their labels, for amounts, and for clock time. Pure."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from oomph.terminal.amounts import as_duration, in_three_digits


class Unit(Enum):
    """The unit of an axis. The values are the units of the table of metrics."""

    BYTES = "bytes"
    SECONDS = "seconds"
    RATIO = "ratio"
    CELSIUS = "celsius"
    NUMBER = ""


@dataclass(frozen=True)
class Tick:
    """A position on an axis that is labelled."""

    value: float
    label: str


@dataclass(frozen=True)
class Axis:
    """The range of an axis, and its ticks."""

    low: float
    high: float
    ticks: tuple[Tick, ...]

    def share(self, value: float) -> float:
        """Return the position of a value on the axis, from 0 to 1."""
        return (value - self.low) / ((self.high - self.low) or 1.0)


_MOST_TICKS = 5
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_BINARY_STEPS = (1.0, 2.0, 4.0, 8.0, 10.0, 16.0, 20.0, 32.0, 40.0, 50.0, 64.0, 100.0, 128.0, 200.0, 256.0, 500.0, 512.0)
_CLOCK_STEPS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600 * hours for hours in (1, 2, 3, 6, 12, 24, 48, 168, 336, 672)),
)
"""The steps of a time axis, in seconds: round to whoever reads a clock."""
_MINUTE, _DAY = 60, 86400
_MOST_CLOCK_TICKS = 8


def amounts(low: float, high: float, unit: Unit) -> Axis:
    """Return an axis for amounts from `low` to `high`, widened to whole ticks.

    Args:
        low: the smallest amount to show. An axis of bytes or shares should start at 0, so that lengths compare.
        high: the largest.
    """
    if not high > low:
        low, high = (min(0.0, low), low or 1.0) if low >= 0 else (low, 0.0)
    step = _step(high - low, unit)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    last = max(last, first + 1)
    values = [number * step for number in range(first, last + 1)]
    return Axis(values[0], values[-1], tuple(Tick(value, label(value, unit, values[-1], step)) for value in values))


def _step(span: float, unit: Unit) -> float:
    """Return the smallest round step of which few enough fit into the span."""
    least = span / _MOST_TICKS
    if unit is Unit.BYTES:
        least = max(least, 1.0)
        power = 1024.0 ** int(math.log(least, 1024))
        return next((step * power for step in _BINARY_STEPS if step * power >= least), 1024.0 * power)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))


def label(value: float, unit: Unit, like: float | None = None, step: float | None = None) -> str:
    """Format an amount, such as "1.5 GiB", "20 ms" or "50 %".

    Args:
        like: an amount whose unit is used, so that the labels of one axis agree.
        step: the distance between two ticks, which decides the number of decimal places.
    """
    like = abs(value if like is None else like)
    if unit is Unit.BYTES:
        return in_three_digits(value, like) if value else "0"
    if unit is Unit.RATIO:
        return f"{_plain(value * 100, None if step is None else step * 100)} %"
    if unit is Unit.CELSIUS:
        return f"{_plain(value, step)} °C"
    if unit is Unit.SECONDS:
        scale, name = next((pair for pair in _PARTS_OF_A_SECOND if like >= pair[0]), _PARTS_OF_A_SECOND[-1])
        return f"{_plain(value / scale, None if step is None else step / scale)} {name}" if value else "0"
    return _plain(value, step)


_PARTS_OF_A_SECOND = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def _plain(value: float, step: float | None) -> str:
    """Format a number with as many decimal places as the step needs, or three significant digits."""
    if step is None:
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    places = next((places for places in range(7) if math.isclose(round(step, places), step, rel_tol=1e-6)), 7)
    return f"{value:,.{places}f}" if places < 7 else f"{value:.2g}"


def clock(begin: float, end: float) -> Axis:
    """Return a time axis between two Unix times, whose ticks are round in local time."""
    span = max(end - begin, 1.0)
    fits = (step for step in _CLOCK_STEPS if span / step <= _MOST_CLOCK_TICKS)
    step = next(fits, math.ceil(span / _MOST_CLOCK_TICKS / _DAY) * _DAY)
    return Axis(begin, begin + span, tuple(Tick(at, _clock_label(at, step)) for at in _round_times(begin, span, step)))


def elapsed(end: float) -> Axis:
    """Return a time axis that counts from 0, whose ticks are round durations."""
    span = max(end, 1.0)
    step = next((step for step in _CLOCK_STEPS if span / step <= _MOST_CLOCK_TICKS), int(span / _MOST_CLOCK_TICKS) + 1)
    values = [float(at) for at in range(0, int(span) + 1, step)]
    return Axis(0.0, span, tuple(Tick(at, as_duration(at) if at else "0") for at in values))


def _round_times(begin: float, span: float, step: int) -> Iterator[float]:
    offset = time.localtime(begin).tm_gmtoff
    at = math.ceil((begin + offset) / step) * step - offset
    while at <= begin + span:
        yield float(at)
        at += step


def _clock_label(at: float, step: int) -> str:
    if step >= _DAY:
        return time.strftime("%d %b", time.localtime(at))
    return time.strftime("%H:%M:%S" if step < _MINUTE else "%H:%M", time.localtime(at))
