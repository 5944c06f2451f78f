"""Growth: whether memory readings only ever grow, as in a leak, and how fast. Pure; standard library only.

The comparison uses floors: the lower quartile of each of eight equal parts, which neither uncollected garbage nor
batches in flight raise. The floors of a leak lie on a line that continues, rises often, and exceeds all earlier memory
use by more than the readings within one part differ. A trend test alone (Mann-Kendall) finds a trend
in nearly every training; each gate is something that one kind of healthy training fails. A check costs O(n log n).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from statistics import mean, median, pstdev

Point = tuple[float, float]
"""A place (an epoch, a step or a time) and a number of bytes."""
PARTS = 8
_SURE = 1.5
"""The number of standard errors by which the rates of two halves must differ to rule out chance."""
_NOW, _JUST_NOW = 0.7, 0.5
"""The minimum rise of the newest two floors, and of the newest one, as a share of the usual rise."""
_STOPPED, _QUIET = 0.25, 0.75
"""A rise below this share of the usual rise counts as none, if readings vary by less than the other share."""
_UNEVEN = 0.2
"""The share of the usual rise by which a rise may differ from it."""


@dataclass(frozen=True)
class Gates:
    """The conditions that growth has to meet; shares refer to the growth."""

    readings: int
    """The minimum number of readings."""
    least_bytes: float
    """The minimum growth in bytes that is worth reporting."""
    still: float = 0.9
    """The minimum rate in the second half, as a share of the overall rate: caches and warm-ups level off."""
    straight: float = 15.0
    """The minimum growth in standard deviations from a line: jumps and random walks are not straight."""


@dataclass(frozen=True)
class Growth:
    """Steady growth."""

    rate: float
    """The growth in bytes per unit of the places: an epoch, a step, a second."""
    grown: float
    """The growth in bytes from the first floor to the last."""
    begin: float
    end: float
    readings: int
    goes_on: bool
    """False if the growth levels off."""


def steady_growth(points: Sequence[Point], gates: Gates) -> Growth | None:
    """Find growth that continues over all points, or over the last two thirds, four ninths, …; None if there is none.

    It must hold with all readings, and without the newest eighth of those that show it.
    """
    found = _over_some(points, gates)
    if found is None or not _grows_now(points, found):
        return None
    newest = max(1, found.readings // PARTS)
    return found if _over_some(points[: len(points) - newest], gates) else None


def _grows_now(points: Sequence[Point], growth: Growth) -> bool:
    """True if the newest one and two floors rose like the others, unlike memory that has just become full."""
    floors = [_floor(part) for part in _parts(points[-growth.readings :])]
    usual = growth.grown / (PARTS - 1)
    return (
        floors[-1][1] - floors[-2][1] >= _JUST_NOW * usual
        and floors[-1][1] - floors[-3][1] >= _NOW * 2 * usual
        and not _has_just_stopped(points, growth)
    )


def _has_just_stopped(points: Sequence[Point], growth: Growth) -> bool:
    """True if the newest sixteenth hardly rose over the previous one, and noise is too small to hide a rise."""
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
        if growth is not None:  # what levels off looks straight again in its last half
            return (
                growth if growth.goes_on and reaches_new_heights(points[:-length], points[-length:], growth) else None
            )
        length = length * 2 // 3
    return None


def reaches_new_heights(earlier: Sequence[Point], points: Sequence[Point], growth: Growth) -> bool:
    """True if half of the growth lies above all earlier readings, unlike the next tooth of a saw, or a wave."""
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
    """Return the newest rises, as far back as they are even; None if there are fewer than `rises`.

    A list that keeps a model of each fit, or the outputs of each epoch, adds the same number of bytes each time. A few
    such rises rule out chance, while a trend of noisy readings needs ten. They must exceed all earlier memory use.
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
    """Count the lasting rises of at least this many bytes. A few are no leak: unfrozen layers and larger images
    cause them, too."""
    lowest_from_here = [*accumulate((value for _, value in reversed(points)), min)][::-1]
    rises, level = 0, lowest_from_here[0]
    for lowest in lowest_from_here:
        if lowest >= level + least:
            rises, level = rises + 1, lowest
    return rises


def _levels_off(floors: Sequence[Point], still: float) -> bool:
    """True if floors rise less in the second half than chance explains; an earlier warm-up is left out."""
    rates = [_rate(*pair) for pair in pairwise(floors[1:])]
    early, late = rates[: PARTS // 2 - 2], rates[PARTS // 2 - 2 :]
    variance = mean((after - before) ** 2 for before, after in pairwise(rates)) / 2
    chance = (variance * (1 / len(early) + 1 / len(late))) ** 0.5
    return mean(late) < still * mean(rates) and mean(early) - mean(late) > _SURE * chance


def _parts(points: Sequence[Point]) -> list[list[Point]]:
    """Divide the points into eight equal stretches, leaving out empty ones."""
    begin, length = points[0][0], points[-1][0] - points[0][0]
    parts: list[list[Point]] = [[] for _ in range(PARTS)]
    for point in points if length > 0 else ():
        parts[min(int(PARTS * (point[0] - begin) / length), PARTS - 1)].append(point)
    return [part for part in parts if part]


def _floor(part: Sequence[Point]) -> Point:
    """Return the lower quartile: below garbage and batches in flight, but above an odd reading.

    Its place is computed from the growth, not taken from the reading, whose place is random if the noise is larger.
    """
    quarter = len(part) // 4
    return part[quarter][0], sorted(value for _, value in part)[quarter]


def _spread(part: Sequence[Point]) -> float:
    """Return the range of a part's readings, in bytes."""
    values = [value for _, value in part]
    return max(values) - min(values)


def _rate(first: Point, last: Point) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])
