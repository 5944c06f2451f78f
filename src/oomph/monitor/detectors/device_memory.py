"""Memory of the GPU near its limit, and rising. Pure.

With TensorFlow's pool NVML's "used" is flat and near the total by design, so TensorFlow's own figures count where it
reports them: what its tensors hold, and the most they held. Without them NVML's count if they climb in many steps:
a pool is taken in one.

Thresholds: none is published; 95 % of the limit, and a rise by 2 % of it, are oomph's own. A training that has filled
its memory for long, and does not grow, has no finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from oomph.monitor.detectors.rising import Rise, gib, rise
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.window import Window

FAULTS = ("device-oom",)
EVERY = 2.0
_NEAR = 0.95
_RISE = 0.02
"""Of the limit: what a training that runs varies by less is not a rise."""
_CLIMB_SECONDS = 120.0
_CLIMB, _STEP, _STEPS = 0.05, 0.001, 5
"""A climb is at least so much of the memory, in at least so many steps of at least so much, none of which is more than
a third of it: allocators that double their pool take a half at once."""


def find(window: Window) -> Iterable[Finding]:
    """TensorFlow's memory where it reports it, else that of each GPU."""
    if _held(window.newest) is None:
        return _climbing(window)
    return _filling(window)


def _held(sample: Sample) -> float | None:
    """The most that TensorFlow's tensors took so far; None if it does not say."""
    held = (sample.training.get("allocator_peak_bytes"), sample.training.get("allocator_in_use_bytes"))
    return max((amount for amount in held if amount is not None), default=None)


def _filling(window: Window) -> Iterator[Finding]:
    held, limit = _held(window.newest) or 0.0, window.newest.training.get("allocator_limit_bytes", 0.0)
    if not limit or held < _NEAR * limit:
        return

    def once_it_trains(sample: Sample) -> float | None:
        """Without the first step, which allocates what all others take."""
        before = _held(sample)
        return before if before is not None and before >= held / 2 else None

    risen = rise(window, once_it_trains, _RISE * limit)
    if risen is not None:
        yield _finding("TensorFlow's memory", held, limit, risen)


def _climbing(window: Window) -> Iterator[Finding]:
    for gpu in window.gpus():
        used, total = (gpu.values.get(f"memory_{which}_bytes", 0.0) for which in ("used", "total"))
        if total and used >= _NEAR * total:
            climb = _climb(window, gpu, used, total)
            if climb is not None:
                yield _finding(gpu.title, used, total, climb)


def _climb(window: Window, gpu: GpuSample, used: float, total: float) -> Rise | None:
    earlier = window.ago(_CLIMB_SECONDS)
    before = next((each.values.get("memory_used_bytes", used) for each in earlier.gpus if each.uuid == gpu.uuid), used)
    if used - before < _CLIMB * total:  # nearly always: the pool is taken, and stays
        return None
    series = window.series(gpu.uuid, "memory_used_bytes", _CLIMB_SECONDS)
    steps = [after - before for (_, before), (_, after) in pairwise(series) if after - before >= _STEP * total]
    if len(steps) < _STEPS or max(steps) > (used - before) / 3:
        return None
    return Rise(used - before, window.newest.time - earlier.time)


def _finding(subject: str, used: float, limit: float, risen: Rise) -> Finding:
    return Finding(
        "device-oom",
        subject,
        f"{gib(used)} of {gib(limit)} are taken ({used / limit:.0%}), {risen}",
        "warning",
        {"used_bytes": used, "limit_bytes": limit, "risen_bytes": risen.amount, "seconds": risen.seconds},
        "Use a smaller batch, or shorter sequences; under `oomph run` a step that fails is retried as micro-batches",
    )
