"""Puts the readings of all workers on one clock, although those of other machines may be wrong by hours. Pure.

Within an attempt, time is counted by the worker's monotonic clock, which nobody can change. Workers of other machines
are compared with the first one by the number of the step: in synchronous training, all complete it together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median, quantiles

from oomph.monitor.pace import Pace, PaceReading

_LEAST_SECONDS = 5.0
"""The difference between two clocks, in seconds, below which they count as equal: a picture of a run hides it."""
_LEAST_COMMON = 4
"""The least number of readings to compare."""
_MOST_SPREAD = 0.25
"""The spread that the differences of single readings may have, as a share of their median. If workers do not wait for
one another, the difference grows with time, and says nothing about their clocks."""


@dataclass(frozen=True)
class OneClock:
    """The readings of all workers, with times by the clock of the first."""

    readings: Mapping[int, Sequence[PaceReading]] = field(default_factory=dict)
    """The readings of each worker, by rank."""
    ahead: Mapping[int, float] = field(default_factory=dict)
    """The seconds by which the clock of each worker's machine is ahead of the first one's, where it differs."""


def on_one_clock(paces: Sequence[Pace]) -> OneClock:
    """Return the readings of all workers with times by the clock of the first one."""
    if not paces:
        return OneClock()
    first, steady = paces[0], {pace.rank: tuple(_steady(pace.readings)) for pace in paces}
    ahead = {}
    for pace in paces[1:]:
        if pace.owner.boot == first.owner.boot:
            continue  # they share a clock
        seconds = _ahead(steady[pace.rank], steady[first.rank])
        if seconds is not None:
            ahead[pace.rank] = seconds
    shifted = {
        rank: [each._replace(time=each.time - ahead[rank]) for each in found] if rank in ahead else found
        for rank, found in steady.items()
    }
    return OneClock(shifted, ahead)


def _steady(readings: Sequence[PaceReading]) -> Iterator[PaceReading]:
    """Yield the readings with times that follow from the clock at the attempt's first one."""
    for _, group in groupby(readings, key=lambda each: each.attempt):
        start: PaceReading | None = None
        for each in group:
            start = start or each
            yield each._replace(time=start.time + each.monotonic - start.monotonic)


def _ahead(readings: Sequence[PaceReading], reference: Sequence[PaceReading]) -> float | None:
    """Return by how much a clock is ahead of the reference, or None if it is not, or that cannot be told."""
    found = list(_differences(readings, reference))
    if len(found) < _LEAST_COMMON:
        return None
    low, middle, high = quantiles(found, n=4)
    is_steady = high - low <= max(_MOST_SPREAD * abs(middle), _LEAST_SECONDS / 2)
    return median(found) if is_steady and abs(middle) > _LEAST_SECONDS else None


def _differences(readings: Sequence[PaceReading], reference: Sequence[PaceReading]) -> Iterator[float]:
    steps = [(each.attempt, each.steps) for each in reference]
    for each in readings:
        at = bisect_left(steps, (each.attempt, each.steps))
        if not 0 < at < len(steps) or steps[at - 1][0] != each.attempt or steps[at][0] != each.attempt:
            continue
        before, after = reference[at - 1], reference[at]
        share = (each.steps - before.steps) / ((after.steps - before.steps) or 1.0)
        yield each.time - (before.time + share * (after.time - before.time))
