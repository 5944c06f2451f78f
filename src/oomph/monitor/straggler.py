"""Finds the worker that the others wait for in every step. Pure.

In synchronous training, all workers have the same step time: whoever is ready waits for the rest. What differs is the
own time: the part of a step before a worker's gradients are ready to be added up with those of the others, which is the
step without the all-reduce. The steps are compared, not the times, so the workers' clocks do not matter.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import NamedTuple

from oomph.monitor.pace import PaceReading, of_newest_attempt

_LATE = 0.1
"""The share of a step by which a worker's own time must exceed that of the others for them to wait for it."""
_ALWAYS = 0.8
"""The share of the compared parts of the training in which it must: chance names one worker here, another there."""
_LEAST_PARTS, _MOST_PARTS, _LEAST_STEPS = 10, 30, 20
_TOGETHER = 0.1
"""The share by which the step times may differ among workers that wait for one another."""


@dataclass(frozen=True)
class Straggler:
    """A worker that the others wait for."""

    rank: int
    wait_seconds: float
    """The time for which the others wait for it in every step."""
    step_seconds: float
    data_seconds: float
    """The part of the wait for which this worker itself waits for its data."""
    also: tuple[int, ...] = ()
    """Other workers that are late as well, but less."""

    @property
    def is_waiting_for_data(self) -> bool:
        """True if it is late mostly because its data comes late."""
        return self.data_seconds > self.wait_seconds / 2


class OwnTime(NamedTuple):
    """The mean step of a worker, in seconds."""

    step: float
    own: float
    """The part of the step that is the worker's own: all but the all-reduce; NaN if that is not measured."""
    input_wait: float
    """The part of its own time in which it waits for a batch."""


def own_time(readings: Sequence[PaceReading]) -> OwnTime | None:
    """Return the mean step over readings of one attempt, or None if no step was completed between them."""
    if len(readings) < 2 or readings[-1].steps <= readings[0].steps:
        return None
    return _grown(readings[0], readings[-1])


def _grown(before: PaceReading, after: PaceReading) -> OwnTime:
    steps = after.steps - before.steps
    whole = (after.step_seconds - before.step_seconds) / steps
    reduced = (after.all_reduce_seconds - before.all_reduce_seconds) / steps
    return OwnTime(whole, whole - reduced, (after.input_wait_seconds - before.input_wait_seconds) / steps)


def find_straggler(readings: Mapping[int, Sequence[PaceReading]]) -> Straggler | None:
    """Return the worker that the others wait for, if the readings of the newest attempt prove that there is one."""
    newest = max((found[-1].attempt for found in readings.values() if found), default=0)
    common = {rank: of_newest_attempt(found) for rank, found in readings.items() if found}
    if len(common) < 2 or any(found[-1].attempt != newest for found in common.values()):
        return None
    parts = _parts(common)
    if not parts or not _is_together(parts):
        return None
    leads = {rank: _leads(rank, parts) for rank in parts[0]}
    late = {rank: median(found) for rank, found in leads.items() if _is_late(found, parts)}
    if not late:
        return None
    order = sorted(late, key=lambda rank: -late[rank])
    waits = [part[order[0]].input_wait - median_low(each.input_wait for each in part.values()) for part in parts]
    data = median(waits)
    return Straggler(
        order[0],
        late[order[0]],
        median(part[order[0]].step for part in parts),
        max(data, 0.0) if data == data else 0.0,
        tuple(order[1:]),
    )


def _parts(readings: Mapping[int, Sequence[PaceReading]]) -> Sequence[Mapping[int, OwnTime]]:
    """Divide the steps that all workers have readings of into equal parts, and measure each worker in each of them."""
    first = max(found[0].steps for found in readings.values())
    last = min(found[-1].steps for found in readings.values())
    count = min(_MOST_PARTS, *(len(found) - 1 for found in readings.values()))
    if count < _LEAST_PARTS or last - first < max(_LEAST_STEPS, count):
        return []
    borders = [first + (last - first) * part / count for part in range(count + 1)]
    at = {rank: [_at(found, border) for border in borders] for rank, found in readings.items()}
    parts = [{rank: _grown(found[part], found[part + 1]) for rank, found in at.items()} for part in range(count)]
    return parts if all(each.own == each.own for part in parts for each in part.values()) else []


def _at(readings: Sequence[PaceReading], steps: float) -> PaceReading:
    """Return the counters at a step, interpolated between two readings."""
    place = bisect_left(readings, steps, key=lambda each: each.steps)
    if place == 0 or readings[place].steps == steps:
        return readings[place]
    before, after = readings[place - 1], readings[place]
    share = (steps - before.steps) / (after.steps - before.steps)
    counters = (low + share * (high - low) for low, high in zip(before[1:], after[1:], strict=True))
    return PaceReading(after.attempt, *counters)


def _is_together(parts: Sequence[Mapping[int, OwnTime]]) -> bool:
    """True if all workers need the same time for the same steps, as they do if they wait for one another."""
    times = [sum(part[rank].step for part in parts) for rank in parts[0]]
    return min(times) > 0 and max(times) - min(times) <= _TOGETHER * max(times)


def _leads(rank: int, parts: Sequence[Mapping[int, OwnTime]]) -> list[float]:
    """Return by how much a worker's own time exceeds that of the others, in each part."""
    return [part[rank].own - median_low(each.own for each in part.values()) for part in parts]


def _is_late(leads: Sequence[float], parts: Sequence[Mapping[int, OwnTime]]) -> bool:
    steps = [median_low(each.step for each in part.values()) for part in parts]
    late = sum(lead > _LATE * step for lead, step in zip(leads, steps, strict=True))
    return late >= _ALWAYS * len(parts)
