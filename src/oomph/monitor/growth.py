"""Growth: whether readings of memory only ever grow, as a leak does, and how fast. Pure; standard library only.

What is compared are floors: the lower quartile of each of eight equal parts, which neither garbage that waits for its
collector nor batches in flight lift. Floors of a leak rise from part to part, about evenly, to where memory never was
before, by more than readings of one part differ. A test of trend alone (Mann-Kendall) finds a trend in nearly every
training; each gate is something that one kind of healthy training fails. One look costs O(n log n).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, pairwise
from statistics import median, pstdev

Point = tuple[float, float]
"""Where (an epoch, a step or a time) and how many bytes."""
PARTS = 8


@dataclass(frozen=True)
class Gates:
    """What growth has to pass; shares are of the growth."""

    readings: int
    """The fewest readings."""
    least_bytes: float
    """Less growth than this is not worth a word."""
    fall: float = 0.1
    """The largest fall of a floor: garbage falls back."""
    rise: float = 0.3
    """The largest rise from one part to the next: a second optimizer, larger batches."""
    still: float = 0.9
    """The least rate in the second half, as a share of the rate over all: caches and warm-ups level off."""
    straight: float = 12.0
    """The least growth in standard deviations of the floors from a line: a random walk wanders off it."""


@dataclass(frozen=True)
class Growth:
    """Steady growth."""

    rate: float
    """Bytes for each unit of the places: an epoch, a step, a second."""
    grown: float
    """Bytes between the first floor and the last."""
    begin: float
    end: float
    goes_on: bool
    """False: it levels off."""


def steady_growth(points: Sequence[Point], gates: Gates) -> Growth | None:
    """Growth that goes on, over all points or the last half, quarter, ... of them; None if there is none.

    It has to hold twice: without the newest readings, and with them.
    """
    newest = max(1, len(points) // PARTS)
    return _over_some(points, gates) if _over_some(points[:-newest], gates) else None


def _over_some(points: Sequence[Point], gates: Gates) -> Growth | None:
    length = len(points)
    while length >= gates.readings:
        growth = _over_all(points[-length:], gates)
        if growth is not None:  # what levels off looks straight again in its last half
            return growth if growth.goes_on and _is_new_height(points, length) else None
        length //= 2
    return None


def _is_new_height(points: Sequence[Point], length: int) -> bool:
    """Whether the last readings lie above all that came before the growth: the next tooth of a saw does not."""
    earlier, last = points[:-length], points[-max(1, length // PARTS) :]
    return not earlier or min(value for _, value in last) > max(value for _, value in earlier)


def _over_all(points: Sequence[Point], gates: Gates) -> Growth | None:
    parts = _parts(points)
    if len(parts) < PARTS:
        return None
    floors = [_floor(part) for part in parts]
    values = [value for _, value in floors]
    grown = values[-1] - values[0]
    if grown < gates.least_bytes or _fall(values) > gates.fall * grown or grown < median(map(_spread, parts)):
        return None
    rate = median(_rate(*pair) for pair in combinations(floors, 2))  # Theil-Sen
    goes_on = _rate(floors[PARTS // 2 - 1], floors[-1]) >= gates.still * _rate(floors[0], floors[-1])
    scatter = pstdev(value - rate * place for place, value in floors)
    uneven = grown < gates.straight * scatter or _largest_rise(values) > gates.rise * grown
    return None if uneven and goes_on else Growth(rate, grown, points[0][0], points[-1][0], goes_on)


def _parts(points: Sequence[Point]) -> list[list[Point]]:
    """The points of eight equal stretches; without those that have none."""
    begin, length = points[0][0], points[-1][0] - points[0][0]
    parts: list[list[Point]] = [[] for _ in range(PARTS)]
    for point in points if length > 0 else ():
        parts[min(int(PARTS * (point[0] - begin) / length), PARTS - 1)].append(point)
    return [part for part in parts if part]


def _floor(part: Sequence[Point]) -> Point:
    """The lower quartile: below garbage and batches in flight, but above the one odd reading."""
    return sorted(part, key=lambda point: point[1])[len(part) // 4]


def _spread(part: Sequence[Point]) -> float:
    """How far the readings of a part lie apart."""
    values = [value for _, value in part]
    return max(values) - min(values)


def _fall(values: Sequence[float]) -> float:
    """How far the values ever fell below an earlier one."""
    return max(highest - value for highest, value in zip(accumulate(values, max), values, strict=True))


def _largest_rise(values: Sequence[float]) -> float:
    return max(after - before for before, after in pairwise(values))


def _rate(first: Point, last: Point) -> float:
    return (last[1] - first[1]) / (last[0] - first[0])
