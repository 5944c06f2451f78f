"""Detects memory that is filling up: GPU memory, because of the script or another process, and host memory. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from oomph.monitor.detector import detector
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuProcess, GpuSample, Sample
from oomph.monitor.window import Window

_NEAR_LIMIT = 0.95
_RISE_OF_LIMIT = 0.02
"""The minimum rise, as a share of the limit. Steady training varies by less."""
_CLIMB_SECONDS = 120.0
_CLIMB, _STEP, _STEPS = 0.05, 0.001, 5
"""The minimum climb and the minimum size of its steps, as shares of the memory, and the minimum number of steps. No
step may exceed a third of the climb: an allocator that doubles its pool takes half of it at once."""


@detector("device-oom", every=2.0)
def device_memory(window: Window) -> Iterable[Finding]:
    """GPU memory that is near its limit and rising.

    With TensorFlow's pool, NVML's "used" value is flat and near the total by design. TensorFlow's own statistics are
    therefore used if available: the memory held by its tensors, and the peak. Without them, NVML's readings count if
    they climb in many steps, since a pool is allocated in a single step.

    Thresholds: none have been published; 95 % of the limit, and a rise of 2 % of the limit, are oomph's own. If memory
    has been full for a long time and is not growing, there is no finding.
    """
    if _held(window.newest) is None:
        return _climbing(window)
    return _filling(window)


def _held(sample: Sample) -> float | None:
    """Return the peak memory that TensorFlow's tensors have used so far, in bytes, or None if unknown."""
    held = (sample.training.get("allocator_peak_bytes"), sample.training.get("allocator_in_use_bytes"))
    return max((amount for amount in held if amount is not None), default=None)


def _filling(window: Window) -> Iterator[Finding]:
    held, limit = _held(window.newest) or 0.0, window.newest.training.get("allocator_limit_bytes", 0.0)
    if not limit or held < _NEAR_LIMIT * limit:
        return

    def once_it_trains(sample: Sample) -> float | None:
        """Return the peak memory of the tensors, or None until the first step has allocated what later ones need."""
        before = _held(sample)
        return before if before is not None and before >= held / 2 else None

    risen = _rise(window, once_it_trains, _RISE_OF_LIMIT * limit)
    if risen is not None:
        yield _nearly_full("TensorFlow's memory", "was in use at the peak", held, limit, risen)


def _climbing(window: Window) -> Iterator[Finding]:
    for gpu in window.gpus():
        used, total = (gpu.values.get(f"memory_{which}_bytes", 0.0) for which in ("used", "total"))
        if total and used >= _NEAR_LIMIT * total:
            climb = _climb(window, gpu, used, total)
            if climb is not None:
                yield _nearly_full(gpu.title, "is in use", used, total, climb)


def _climb(window: Window, gpu: GpuSample, used: float, total: float) -> _Rise | None:
    earlier = window.ago(_CLIMB_SECONDS)
    before = next((each.values.get("memory_used_bytes", used) for each in earlier.gpus if each.uuid == gpu.uuid), used)
    if used - before < _CLIMB * total:  # nearly always, since the pool stays allocated
        return None
    series = window.series(gpu.uuid, "memory_used_bytes", _CLIMB_SECONDS)
    steps = [after - before for (_, before), (_, after) in pairwise(series) if after - before >= _STEP * total]
    if len(steps) < _STEPS or max(steps) > (used - before) / 3:
        return None
    return _Rise(used - before, window.newest.time - earlier.time)


def _nearly_full(subject: str, when: str, used: float, limit: float, risen: _Rise) -> Finding:
    return Finding(
        "device-oom",
        subject,
        f"{_gib(used)} of {_gib(limit)} {when} ({used / limit:.0%}), {risen}",
        "warning",
        {"used_bytes": used, "limit_bytes": limit, "risen_bytes": risen.amount, "seconds": risen.seconds},
        "Use a smaller batch or shorter sequences",
        without_run="under `oomph run`, a step that fails is retried in micro-batches",
    )


_TAKEN_BYTES = 1 << 30


@detector("device-oom-other-process", every=0.0)  # few samples list processes
def other_process(window: Window) -> Iterable[Finding]:
    """A process outside the script that starts using memory on one of its GPUs.

    Threshold: 1 GiB, oomph's own, so that a bare CUDA context or a desktop does not count. Processes that were there
    before the script do not count, nor do those that the script started.
    """
    for gpu in window.gpus():
        if gpu.processes and any(process.own for process in gpu.processes):
            for process in gpu.processes:
                arrival = window.arrival(gpu.uuid, process.pid)
                if arrival is not None and arrival.to_the_script and not process.own:
                    held = arrival.rise_bytes if process.memory_bytes is None else process.memory_bytes
                    if held >= _TAKEN_BYTES:
                        yield _taken_by(window, gpu, process, held)


def _taken_by(window: Window, gpu: GpuSample, process: GpuProcess, held: float) -> Finding:
    values = window.latest(gpu.uuid)
    free = values.get("memory_total_bytes", 0.0) - values.get("memory_used_bytes", 0.0)
    name = f"process {process.pid}" + (f" ({process.name})" if process.name else "")
    left = f"; {_gib(max(free, 0.0))} is left" if "memory_total_bytes" in values else ""
    return Finding(
        "device-oom-other-process",
        gpu.title,
        f"{name}, which does not belong to the script, now uses {_gib(held)}{left}",
        "warning",
        {"pid": process.pid, "name": process.name, "memory_bytes": process.memory_bytes, "free_bytes": free},
        f"Check what it is (ps -fp {process.pid}); train on a different GPU, or move it to one",
        kind=str(process.pid),
    )


_HOST_NEAR, _HOST_CRITICAL = 0.95, 0.98
_HOST_RISE = 0.02


@detector("host-oom", every=2.0)
def host_memory(window: Window) -> Iterable[Finding]:
    """Memory use of the machine, or of its cgroup, that is near the limit and rising.

    Threshold: 5 % available, at which earlyoom starts killing processes by default (earlyoom(1), `-m`); the kernel
    waits longer. The memory in use must also have risen by 2 % of the total within the last 50 minutes, since a file
    system's cache may fill a machine permanently.
    """
    used, total = (window.newest.host.get(f"memory_{which}_bytes", 0.0) for which in ("used", "total"))
    if not total or used < _HOST_NEAR * total:
        return
    risen = _rise(window, lambda sample: sample.host.get("memory_used_bytes"), _HOST_RISE * total)
    if risen is None:
        return
    own = window.newest.process.get("resident_bytes")
    share = "" if own is None else f"; the script's processes hold {_gib(own)}"
    yield Finding(
        "host-oom",
        "host memory",
        f"{_gib(used)} of {_gib(total)} is in use ({used / total:.0%}), {risen}{share}",
        "critical" if used >= _HOST_CRITICAL * total else "warning",
        {"used_bytes": used, "total_bytes": total, "risen_bytes": risen.amount, "seconds": risen.seconds, "own": own},
    )


_AGES = (10.0, 60.0, 300.0, 600.0, 3000.0)


class _Rise(NamedTuple):
    """The increase in an amount, and its duration in seconds."""

    amount: float
    seconds: float

    def __str__(self) -> str:
        minutes = self.seconds / 60
        return f"{_gib(self.amount)} more than " + (
            f"{minutes:.0f} minutes ago" if minutes >= 2 else f"{self.seconds:.0f} s ago"
        )


def _rise(window: Window, amount: Callable[[Sample], float | None], least: float) -> _Rise | None:
    """Return the fastest rise of at least `least`, or None if there is none."""
    now = amount(window.newest)
    for seconds in _AGES if now is not None else ():
        earlier = window.ago(seconds)
        before, age = amount(earlier), window.newest.time - earlier.time
        if now is not None and before is not None and age >= seconds and now - before >= least:
            return _Rise(now - before, age)
    return None


def _gib(amount: float) -> str:
    """Format an amount of memory: "79.6 GiB"."""
    return f"{amount / (1 << 30):.1f} GiB" if amount >= 1 << 30 else f"{amount / (1 << 20):.0f} MiB"
