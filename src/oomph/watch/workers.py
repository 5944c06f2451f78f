"""WorkerView: one of several workers of a run as displayed, from what it recorded and what the journal says. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oomph.journal.events import Hung, WorkerFailed
from oomph.journal.journal import Event, pairs
from oomph.monitor.pace import Pace, PaceReading, of_newest_attempt
from oomph.monitor.sample import Values
from oomph.monitor.straggler import OwnTime, own_time

DEAD, HUNG, FAILED, STOPPED, BEHIND = "dead", "hung", "failed", "stopped", "behind"
SILENT, STARTING, TRAINING, ENDED = "no steps", "starting", "training", "ended"
_WORST_FIRST = (DEAD, HUNG, FAILED, STOPPED, BEHIND, SILENT, STARTING, TRAINING, ENDED)
BAD_STATES = frozenset(_WORST_FIRST[: _WORST_FIRST.index(SILENT)])
"""The states that others have to wait for."""
_SILENT_SECONDS, _SILENT_STEPS = 10.0, 5.0
"""The time for which a worker may be silent before that is shown: so many seconds, and so many of its steps. If others
are farther, it is behind; if none is, they all wait, for one of them or for a validation or a checkpoint."""


@dataclass(frozen=True)
class Trace:
    """The traces of a worker in its run directory, and its process as seen from outside."""

    pace: Pace
    lives: bool | None = None
    """True if its process is alive, or None if that is not known, as on another host."""
    is_stopped: bool = False
    """True if its process is stopped, as by SIGSTOP."""
    silent_seconds: float = 0.0
    """The time since its newest reading, or since that was first seen."""


@dataclass(frozen=True)
class WorkerView:
    """A worker as displayed. Unknown fields are None."""

    rank: int
    state: str
    """The state: one of the names above."""
    host: str = ""
    steps: int | None = None
    """The number of steps completed."""
    time: OwnTime | None = None
    """The mean step of the last minutes."""
    reading: PaceReading | None = None
    """The last record of the worker."""

    @property
    def own_seconds(self) -> float | None:
        """Its own time in a step, or None if it was not measured."""
        return None if self.time is None or self.time.own != self.time.own else self.time.own

    @property
    def input_wait_ratio(self) -> float | None:
        """The share of a step in which it waits for data."""
        if self.time is None or not self.time.step > 0 or self.time.input_wait != self.time.input_wait:
            return None
        return min(self.time.input_wait / self.time.step, 1.0)

    @property
    def pool_bytes(self) -> float | None:
        """The memory in use in TensorFlow's pool."""
        return None if self.reading is None else _known(self.reading.pool_bytes)

    @property
    def resident_bytes(self) -> float | None:
        """The memory of the process."""
        return None if self.reading is None else _known(self.reading.resident_bytes)

    @property
    def training(self) -> Values:
        """The counters and the memory, named as in the table of metrics."""
        if self.reading is None:
            return {}
        found = {
            "steps_total": self.reading.steps,
            "step_seconds_total": self.reading.step_seconds,
            "input_wait_seconds_total": self.reading.input_wait_seconds,
            "all_reduce_seconds_total": self.reading.all_reduce_seconds,
            "allocator_in_use_bytes": self.reading.pool_bytes,
            "allocator_limit_bytes": self.reading.pool_limit_bytes,
        }
        return {key: value for key, value in found.items() if value == value}


def failures_of(events: Sequence[Event]) -> Mapping[int, tuple[int, str]]:
    """Return the workers that ended an attempt, by rank: the last such attempt, and `HUNG` or `FAILED`."""
    found = {each.worker: (event.attempt, FAILED) for event, each in pairs(events, WorkerFailed) if each.cause}
    hung = {each.worker: (event.attempt, HUNG) for event, each in pairs(events, Hung) if each.worker is not None}
    return found | {rank: how for rank, how in hung.items() if how[0] >= found.get(rank, how)[0]}


def workers_of(
    traces: Sequence[Trace], count: int, attempt: int, going_on: bool, failures: Mapping[int, tuple[int, str]]
) -> tuple[WorkerView, ...]:
    """Return the workers of a run, by rank.

    Args:
        traces: what is known of each worker that has recorded anything.
        count: the number of workers.
        attempt: the number of the last attempt.
        going_on: True if the run is in progress.
        failures: the workers that ended an attempt.
    """
    known = {trace.pace.rank: trace for trace in traces}
    farthest = max((trace.pace.newest.steps for trace in traces if trace.pace.newest.attempt == attempt), default=0.0)
    found = []
    for rank in sorted({*known, *range(count)}):
        trace = known.get(rank)
        failed_in, how = failures.get(rank, (0, ""))
        state = how if failed_in == attempt else _state(trace, attempt, farthest) if going_on else ENDED
        found.append(_worker(rank, state, trace))
    return tuple(found)


def _state(trace: Trace | None, attempt: int, farthest: float) -> str:
    if trace is None or trace.pace.newest.attempt < attempt:
        return STARTING
    if trace.lives is False:
        return DEAD
    if trace.is_stopped:
        return STOPPED
    newest, mean = trace.pace.newest, own_time(of_newest_attempt(trace.pace.readings))
    limit = max(_SILENT_SECONDS, _SILENT_STEPS * (0.0 if mean is None else mean.step))
    if trace.silent_seconds <= limit:
        return TRAINING
    return BEHIND if newest.steps < farthest else SILENT


def _worker(rank: int, state: str, trace: Trace | None) -> WorkerView:
    if trace is None:
        return WorkerView(rank, state)
    owner, newest = trace.pace.owner, trace.pace.newest
    mean = own_time(of_newest_attempt(trace.pace.readings))
    return WorkerView(rank, state, "" if owner.host == "-" else owner.host, int(newest.steps), mean, newest)


def worst_first(workers: Sequence[WorkerView]) -> list[WorkerView]:
    """Return the workers in the order of their states, and within one those that need longest for their own part."""
    return sorted(
        workers, key=lambda each: (_rank_of(each.state), -(each.own_seconds or 0.0), each.steps or 0, each.rank)
    )


def _rank_of(state: str) -> int:
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)


def _known(value: float) -> float | None:
    return value if value == value else None
