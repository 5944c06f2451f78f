"""What a process tree does: whether it has used the processor, or read or written, since it was last looked at."""

from __future__ import annotations

import time
from dataclasses import dataclass

_LEAST_SHARE = 0.01
"""Of one processor: less is what sleeping threads use to look at the clock."""
_LEAST_SECONDS = 0.02
"""Two ticks of the kernel's count, which is no finer."""


@dataclass(frozen=True)
class Sample:
    """The counters of a process tree at one time."""

    at: float
    pids: frozenset[int]
    cpu_seconds: float
    io_bytes: int
    stopped: bool
    """Whether somebody has stopped the first process of the tree (SIGSTOP, a debugger)."""


def sample(pid: int) -> Sample | None:
    """The counters of a process and all below it; None when it is gone."""
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
            times = process.cpu_times()
            counters = process.io_counters()
        except (psutil.Error, OSError):
            continue
        pids.add(process.pid)
        cpu += times.user + times.system
        io += counters.read_chars + counters.write_chars
    return Sample(time.monotonic(), frozenset(pids), cpu, io, stopped)


def was_active(before: Sample, after: Sample) -> bool:
    """Whether the tree has done anything between two samples."""
    if before.pids != after.pids or before.io_bytes != after.io_bytes:
        return True
    least = max(_LEAST_SECONDS, _LEAST_SHARE * (after.at - before.at))
    return after.cpu_seconds - before.cpu_seconds > least
