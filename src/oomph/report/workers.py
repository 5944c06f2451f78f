"""The workers of a run as they were recorded, on the clock of the first one. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from oomph.journal.events import Hung, WorkerFailed
from oomph.journal.journal import Event
from oomph.monitor.detectors.workers import why_late
from oomph.monitor.one_clock import on_one_clock
from oomph.monitor.pace import PaceReading, of_newest_attempt, read_paces
from oomph.monitor.straggler import OwnTime, Straggler, find_straggler, own_time
from oomph.terminal.amounts import as_duration, as_size, as_step_time, counted, listed
from oomph.terminal.endings import ProcessEnd

HEADS = ("worker", "host", "steps", "step", "own part", "input wait", "TF pool at most", "RSS at most", "what happened")
_MOST_FAILURES = 100


@dataclass(frozen=True)
class WorkerFailure:
    """The failure of one worker that ended an attempt."""

    attempt: int
    time: float
    text: str


@dataclass(frozen=True)
class RecordedWorker:
    """One of several workers."""

    rank: int
    host: str
    readings: Sequence[PaceReading]
    """The worker's record, with times by the clock of the first worker."""
    failures: tuple[WorkerFailure, ...] = ()

    @property
    def time(self) -> OwnTime | None:
        """Its mean step in the newest attempt."""
        return own_time(of_newest_attempt(self.readings))

    @property
    def own_seconds(self) -> float:
        """Its own part of a step, or 0 if that was not measured."""
        time = self.time
        return 0.0 if time is None or time.own != time.own else max(time.own, 0.0)

    @property
    def pool_bytes(self) -> float | None:
        """The most memory of TensorFlow's pool in any reading."""
        return max((each.pool_bytes for each in self.readings if each.pool_bytes == each.pool_bytes), default=None)

    @property
    def resident_bytes(self) -> float | None:
        """The most memory of its process in any reading."""
        found = (each.resident_bytes for each in self.readings)
        return max((each for each in found if each == each), default=None)


@dataclass(frozen=True)
class RecordedWorkers:
    """The workers of a run."""

    workers: tuple[RecordedWorker, ...] = ()
    """The workers by rank; empty if there is only one."""
    straggler: Straggler | None = None
    """The worker that the others waited for in the newest attempt, if the readings prove that there is one."""
    ahead: Mapping[int, float] = field(default_factory=dict)
    """The seconds by which the clock of each worker's machine is ahead of the first one's, where it differs."""

    @property
    def slowest_first(self) -> list[RecordedWorker]:
        """The workers, those first that need longest for their own part of a step."""
        return sorted(self.workers, key=lambda each: (-each.own_seconds, each.rank))


def read_workers(path: Path, events: Iterable[Event]) -> RecordedWorkers:
    """Read what the workers of a run recorded. Never raises."""
    paces = read_paces(path)
    clock, failures = on_one_clock(paces), _failures(events)
    workers = tuple(
        RecordedWorker(
            pace.rank,
            "" if pace.owner.host == "-" else pace.owner.host,
            clock.readings[pace.rank],
            tuple(failures[pace.rank][:_MOST_FAILURES]),
        )
        for pace in paces
    )
    return RecordedWorkers(workers, find_straggler(clock.readings), clock.ahead)


def _failures(events: Iterable[Event]) -> defaultdict[int, list[WorkerFailure]]:
    """Return the failures that ended an attempt by rank: a hang is told as such, and not as the kill that followed."""
    found: defaultdict[int, list[WorkerFailure]] = defaultdict(list)
    for event in events:
        match event.fact:
            case Hung(worker=int(rank), line=line):
                text = f"hung in attempt {event.attempt}" + (f" at {line}" if line else "")
            case WorkerFailed(worker=rank, cause=True, returncode=code):
                text = f"{ProcessEnd(code).predicate} in attempt {event.attempt}"
            case _:
                continue
        if not any(each.attempt == event.attempt for each in found[rank]):
            found[rank].append(WorkerFailure(event.attempt, event.time, text))
    return found


def sentences(found: RecordedWorkers) -> Iterator[str]:
    """Yield which worker the others waited for, and whose clock is wrong."""
    hosts = {each.rank: each.host for each in found.workers}
    late = found.straggler
    if late is not None:
        wait, step = as_step_time(late.wait_seconds), as_step_time(late.step_seconds)
        yield f"{_named(late.rank, hosts)} was late by {wait} in every step of {step}: {why_late(late)}"
        if late.also:
            yield f"also late: {listed([_named(rank, hosts) for rank in late.also])}"
    by_host = defaultdict[str, list[int]](list)
    for rank in found.ahead:
        by_host[hosts[rank]].append(rank)
    for ranks in by_host.values():
        seconds = found.ahead[ranks[0]]
        behind = "ahead of" if seconds > 0 else "behind"
        whose = listed([_named(rank, hosts) for rank in ranks])
        apart = f"{as_duration(abs(seconds))} {behind} that of worker 0"
        yield f"the clock of {whose} is {apart}, by which all times here are given"


def _named(rank: int, hosts: Mapping[int, str]) -> str:
    return f"worker {rank}" + (f" ({hosts[rank]})" if hosts.get(rank) and len({*hosts.values()}) > 1 else "")


def rows(found: RecordedWorkers) -> Iterator[tuple[str, ...]]:
    """Yield the figures of each worker, in the order of `HEADS`, the slowest first."""
    for each in found.slowest_first:
        time, pool, resident = each.time, each.pool_bytes, each.resident_bytes
        yield (
            str(each.rank),
            each.host,
            f"{each.readings[-1].steps:,.0f}",
            "" if time is None else as_step_time(time.step),
            as_step_time(each.own_seconds) if each.own_seconds else "",
            "" if time is None or time.input_wait != time.input_wait else as_step_time(max(time.input_wait, 0.0)),
            "" if pool is None else as_size(pool),
            "" if resident is None else as_size(resident),
            "; ".join(failure.text for failure in each.failures),
        )


def as_documents(found: RecordedWorkers) -> list[dict[str, object]]:
    """Return the workers for JSON, by rank."""
    return [
        {
            "rank": each.rank,
            "host": each.host,
            "steps": int(each.readings[-1].steps),
            "step_seconds": None if each.time is None else each.time.step,
            "own_seconds": each.own_seconds or None,
            "pool_bytes": each.pool_bytes,
            "resident_bytes": each.resident_bytes,
            "clock_ahead_seconds": found.ahead.get(each.rank, 0.0),
            "late_seconds": found.straggler.wait_seconds
            if found.straggler is not None and found.straggler.rank == each.rank
            else None,
            "failures": [vars(failure) for failure in each.failures],
        }
        for each in found.workers
    ]


def in_short(found: RecordedWorkers) -> str:
    """Return how many workers there are, and on how many hosts."""
    hosts = len({each.host for each in found.workers})
    return counted(len(found.workers), "worker") + (f" on {counted(hosts, 'host')}" if hosts > 1 else "")
