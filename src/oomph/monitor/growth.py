"""Determines whether memory readings grow steadily, as they do in a leak, and how fast. Pure; standard library only.

The comparison uses floors: the lower quartile of each of eight equal parts, which is not raised by uncollected garbage
or batches in flight. The floors of a leak lie on a line that has not levelled off, rises often, and exceeds all earlier
memory use by more than the spread of the readings within one part. A trend test alone (Mann-Kendall) finds a trend in
nearly every training run; each of the gates excludes one kind of healthy training. A check costs O(n log n).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from statistics import mean, median, pstdev

Point = tuple[float, float]
"""A position (an epoch, a step or a time) and a number of bytes."""
PARTS = 8
_SURE = 1.5
"""The number of standard errors by which the rates of the two halves must differ to rule out chance."""
_NOW, _JUST_NOW = 0.7, 0.5
"""The minimum rise over the last two floors, and over the last one, as shares of the usual rise."""
_STOPPED, _QUIET = 0.25, 0.75
"""A rise below the first share of the usual rise counts as no rise if the readings vary by less than the second
share."""
_UNEVEN = 0.2
"""The share of the usual rise by which an individual rise may differ from it."""


@dataclass(frozen=True)
class Gates:
    """The conditions that growth must meet."""

    readings: int
    """The minimum number of readings."""
    least_bytes: float
    """The minimum growth, in bytes, that is worth reporting."""
    still: float = 0.9
    """The minimum rate in the second half, as a share of the overall rate: caches and warm-ups level off."""
    straight: float = 15.0
    """The minimum growth, in standard deviations of the floors from a straight line, which excludes jumps and random
    walks."""


@dataclass(frozen=True)
class Growth:
    """Steady growth."""

    rate: float
    """The growth in bytes per epoch, step or second, depending on the unit of the positions."""
    grown: float
    """The growth, in bytes, from the first floor to the last."""
    begin: float
    end: float
    readings: int
    goes_on: bool
    """False if the growth levels off."""


def steady_growth(points: Sequence[Point], gates: Gates) -> Growth | None:
    """Find growth that continues over all points, or over the last two thirds, four ninths, …, or return None.

    The growth must also be found without the newest eighth of the readings that show it.
    """
    found = _over_some(points, gates)
    if found is None or not _grows_now(points, found):
        return None
    newest = max(1, found.readings // PARTS)
    return found if _over_some(points[: len(points) - newest], gates) else None


def _grows_now(points: Sequence[Point], growth: Growth) -> bool:
    """True if the last floor and the last two together rose like the others, unlike memory that has just filled up."""
    floors = [_floor(part) for part in _parts(points[-growth.readings :])]
    usual = growth.grown / (PARTS - 1)
    return (
        floors[-1][1] - floors[-2][1] >= _JUST_NOW * usual
        and floors[-1][1] - floors[-3][1] >= _NOW * 2 * usual
        and not _has_just_stopped(points, growth)
    )


def _has_just_stopped(points: Sequence[Point], growth: Growth) -> bool:
    """True if the newest sixteenth is hardly higher than the previous one, and noise is too small to hide a rise."""
    sixteenth = (growth.end - growth.begin) / (2 * PARTS)
    places = [place for place, _ in points]
    last = min(bisect_left(places, growth.end - sixteenth), len(points) - 2)
    first = min(bisect_left(places, growth.end - 2 * sixteenth), last - 2)
    before, newest = points[first:last], points[last:]
    rise = median(value for _, value in newest) - median(value for _, value in before)
    usual = growth.rate * (newest[0][0] - before[0][0])
    return rise < _STOPPED * usual and _spread(newest) < _QUIET * usual


def _over_some(points: Sequence[Point], gates: Gates) -> Growth | None:
    length = len(points)
    while length >= gates.readings:
        growth = _over_all(points[-length:], gates)
        if growth is not None:  # growth that levels off looks straight in its last half
            return (
                growth if growth.goes_on and reaches_new_heights(points[:-length], points[-length:], growth) else None
            )
        length = length * 2 // 3
    return None


def reaches_new_heights(earlier: Sequence[Point], points: Sequence[Point], growth: Growth) -> bool:
    """True if half of the growth lies above all earlier readings, which excludes sawtooth patterns and waves."""
    last = min(value for _, value in points[-max(1, len(points) // PARTS) :])
    return all(value <= last - growth.grown / 2 for _, value in earlier)


def _over_all(points: Sequence[Point], gates: Gates) -> Growth | None:
    parts = _parts(points)
    if len(parts) < PARTS:
        return None
    floors = [_floor(part) for part in parts]
    grown = floors[-1][1] - floors[0][1]
    if grown < max(gates.least_bytes, median(map(_spread, parts))):
        return None
    rate = median(_rate(*pair) for pair in combinations(floors, 2))  # Theil-Sen
    goes_on = not _levels_off(floors, gates.still)
    scatter = pstdev(value - rate * place for place, value in floors)
    if goes_on and (grown < gates.straight * scatter or rises_for_good(points, grown / (2 * PARTS)) < PARTS - 1):
        return None
    return Growth(rate, grown, points[0][0], points[-1][0], len(points), goes_on)


def even_rises(points: Sequence[Point], rises: int, least_bytes: float) -> Growth | None:
    """Return the growth over the latest series of even rises, or None if there are fewer than `rises` of them.

    A list that keeps the model of each fit, or the outputs of each epoch, adds the same number of bytes each time. A
    few equal rises rule out chance, whereas a trend in noisy readings needs ten. The rises must also exceed all earlier
    memory use.
    """
    sizes = [after - before for (_, before), (_, after) in pairwise(points)]
    if len(sizes) < rises:
        return None
    usual, number = median(sizes[-rises:]), 0
    while number < len(sizes) and abs(sizes[-1 - number] - usual) <= _UNEVEN * usual:
        number += 1
    earlier, since = points[: -1 - number], points[-1 - number :]
    grown, length = since[-1][1] - since[0][1], since[-1][0] - since[0][0]
    if number < rises or grown < least_bytes:
        return None
    growth = Growth(grown / length, grown, since[0][0], since[-1][0], len(since), goes_on=True)
    return growth if reaches_new_heights(earlier, since, growth) else None


def rises_for_good(points: Sequence[Point], least: float) -> int:
    """Count the lasting rises of at least this many bytes.

    A few rises alone are not a leak: unfreezing layers and larger images also cause them.
    """
    lowest_from_here = [*accumulate((value for _, value in reversed(points)), min)][::-1]
    rises, level = 0, lowest_from_here[0]
    for lowest in lowest_from_here:
        if lowest >= level + least:
            rises, level = rises + 1, lowest
    return rises


def _levels_off(floors: Sequence[Point], still: float) -> bool:
    """True if the floors rise more slowly in the second half than chance can explain, ignoring the initial warm-up."""
    rates = [_rate(*pair) for pair in pairwise(floors[1:])]
    early, late = rates[: PARTS // 2 - 2], rates[PARTS // 2 - 2 :]
    variance = mean((after - before) ** 2 for before, after in pairwise(rates)) / 2
    chance = (variance * (1 / len(early) + 1 / len(late))) ** 0.5
    return mean(late) < still * mean(rates) and mean(early) - mean(late) > _SURE * chance


def _parts(points: Sequence[Point]) -> list[list[Point]]:
    """Divide the points into eight stretches of equal length, leaving out empty ones."""
    begin, length = points[0][0], points[-1][0] - points[0][0]
    parts: list[list[Point]] = [[] for _ in range(PARTS)]
    for point in points if length > 0 else ():
        parts[min(int(PARTS * (point[0] - begin) / length), PARTS - 1)].append(point)
    return [part for part in parts if part]


def _floor(part: Sequence[Point]) -> Point:
    """Return the lower quartile, which lies below garbage and batches in flight, but above an unusually low reading.

    Its position is a quarter of the way into the part. The position of the reading itself would be random if the noise
    were larger than the growth.
    """
    quarter = len(part) // 4
    return part[quarter][0], sorted(value for _, value in part)[quarter]


def _spread(part: Sequence[Point]) -> float:
    """Return the range of a part's readings, in bytes."""
    values = [value for _, value in part]
    return max(values) - min(values)


def _rate(first: Point, last: Point) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])
