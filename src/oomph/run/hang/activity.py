"""The activity of a process tree: whether it used the processor, read or wrote between two samples."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_LEAST_SECONDS = 0.001
"""Processor seconds between two samples that count as activity. All threads of a waiting TensorFlow take 7 µs a second
(measured: a lock, a queue, a generator, a sleep); a pipeline fed a few samples a second by a slow disk or network takes
more."""
_OF_PROCESS = 2
"""The scheduler's clock of a process (`CPUCLOCK_SCHED`, include/linux/posix-timers_types.h)."""


@dataclass(frozen=True)
class ActivitySample:
    """The counters of a process tree at one moment."""

    at: float
    pids: frozenset[int]
    cpu_seconds: float
    io_bytes: int
    stopped: bool
    """True if the first process of the tree is stopped (SIGSTOP, a debugger)."""


def sample(pid: int) -> ActivitySample | None:
    """The counters of a process and its descendants; None when it is gone."""
    import psutil

    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
        stopped = first.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return None
    cpu, io, pids = 0.0, 0, set()
    for process in processes:
        try:
            seconds = _cpu_seconds(process)
            counters = process.io_counters()
        except (psutil.Error, OSError):
            continue
        pids.add(process.pid)
        cpu += seconds
        io += counters.read_chars + counters.write_chars
    return ActivitySample(time.monotonic(), frozenset(pids), cpu, io, stopped)


def was_active(before: ActivitySample, after: ActivitySample) -> bool:
    """True if the tree did anything between two samples."""
    if before.pids != after.pids or before.io_bytes != after.io_bytes:
        return True
    return after.cpu_seconds - before.cpu_seconds > _LEAST_SECONDS


def _cpu_seconds(process: psutil.Process) -> float:
    """The processor time of a process in seconds, to the nanosecond (`clock_getcpuclockid`); psutil is coarser."""
    try:
        return time.clock_gettime(~process.pid << 3 | _OF_PROCESS)
    except OSError:
        times = process.cpu_times()
        return float(times.user + times.system)
