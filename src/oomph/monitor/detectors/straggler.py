"""One GPU of several that is far slower than the others of the same training. Pure.

Thresholds: clock below 80 %, or use below half of the median of the others, over 5 minutes in which these work, all
oomph's own. Only GPUs on which the script has a process are compared: at least three, so that the others agree, or
two with a clock to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean, median
from typing import NamedTuple

from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample
from oomph.monitor.window import Window

FAULTS = ("straggler",)
EVERY = 120.0
_SECONDS = 300.0
_LEAST_SAMPLES = 240
_BUSY = 0.5
_SLOW_CLOCK, _LITTLE_USE = 0.8, 0.5
_AGREEING = 3
_REMEDY = "Compare the GPUs: nvidia-smi -q -d PERFORMANCE,CLOCK; the slowest one sets the pace of all"


class Pace(NamedTuple):
    """How a GPU worked in the last minutes."""

    gpu: GpuSample
    use: float
    clock: float


def find(window: Window) -> Iterable[Finding]:
    """The GPUs that are far behind the others."""
    paces = [pace for gpu in _own(window) if (pace := _pace(window, gpu)) is not None]
    for pace in paces:
        others = [other for other in paces if other is not pace]
        if others and median(other.use for other in others) >= _BUSY:
            yield from _behind(pace, others)


def _own(window: Window) -> list[GpuSample]:
    """The GPUs on which the script has a process, as they were when asked last."""
    last: dict[str, GpuSample] = {}
    for sample in window.last(_SECONDS):
        last |= {gpu.uuid: gpu for gpu in sample.gpus if gpu.processes is not None}
    return [gpu for gpu in last.values() if any(process.own for process in gpu.processes or ())]


def _pace(window: Window, gpu: GpuSample) -> Pace | None:
    seen = [values for _, values in window.values(gpu.uuid, _SECONDS) if "utilization_ratio" in values]
    clocks = [values["sm_clock_hertz"] for values in seen if "sm_clock_hertz" in values]
    if len(seen) < _LEAST_SAMPLES:
        return None
    return Pace(gpu, fmean(values["utilization_ratio"] for values in seen), fmean(clocks) if clocks else 0.0)


def _behind(pace: Pace, others: list[Pace]) -> Iterator[Finding]:
    clock, use = median(other.clock for other in others), median(other.use for other in others)
    if pace.use >= _BUSY and 0 < pace.clock < _SLOW_CLOCK * clock:
        text = f"its clock is {pace.clock / 1e6:.0f} MHz, that of the others {clock / 1e6:.0f} MHz: all wait for it"
        evidence = {"clock_hertz": pace.clock, "others_hertz": clock}
        yield Finding("straggler", pace.gpu.title, text, "warning", evidence, _REMEDY, kind="clock")
    elif len(others) + 1 >= _AGREEING and pace.use < _LITTLE_USE * use:
        text = f"it works {pace.use:.0%} of the time, the others {use:.0%}"
        evidence = {"utilization_ratio": pace.use, "others_ratio": use}
        yield Finding("straggler", pace.gpu.title, text, "notice", evidence, _REMEDY, kind="use")
