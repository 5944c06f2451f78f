"""Another process that comes to a GPU of the script and takes memory there. Pure.

Threshold: 1 GiB, oomph's own, so that a bare CUDA context or a desktop is none. Processes that were there before the
script are no news; those of the script are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oomph.monitor.detectors.rising import gib
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuProcess, GpuSample
from oomph.monitor.window import Window

FAULTS = ("device-oom-other-process",)
EVERY = 0.0  # processes are in few samples
_LEAST_BYTES = 1 << 30
_RECENT_SECONDS = 60.0


def find(window: Window) -> Iterable[Finding]:
    """Who has come to a GPU on which the script is."""
    for gpu in window.gpus():
        if gpu.processes and any(process.own for process in gpu.processes):
            yield from _arrived(window, gpu, gpu.processes)


def _arrived(window: Window, gpu: GpuSample, processes: Iterable[GpuProcess]) -> Iterator[Finding]:
    others = [each for each in processes if not each.own and (_held(window, gpu, each) >= _LEAST_BYTES)]
    if not others:
        return
    lists = [
        {process.pid: process for process in each.processes}
        for sample in window.last(_RECENT_SECONDS)
        for each in sample.gpus
        if each.uuid == gpu.uuid and each.processes is not None
    ]
    for process in others:
        came = next((number for number, each in enumerate(lists) if process.pid in each), 0)
        if any(own.own for each in lists[:came] for own in each.values()):  # the script was there first
            yield _finding(window, gpu, process)


def _held(window: Window, gpu: GpuSample, process: GpuProcess) -> float:
    """What it holds; where the driver does not say, by how much the memory in use has risen."""
    if process.memory_bytes is not None:
        return process.memory_bytes
    series = window.series(gpu.uuid, "memory_used_bytes", _RECENT_SECONDS)
    return series[-1][1] - series[0][1] if series else 0.0


def _finding(window: Window, gpu: GpuSample, process: GpuProcess) -> Finding:
    held, values = _held(window, gpu, process), window.latest(gpu.uuid)
    free = values.get("memory_total_bytes", 0.0) - values.get("memory_used_bytes", 0.0)
    name = f"process {process.pid}" + (f" ({process.name})" if process.name else "")
    left = f"; {gib(max(free, 0.0))} are left" if "memory_total_bytes" in values else ""
    return Finding(
        "device-oom-other-process",
        gpu.title,
        f"{name}, which is not the script's, has come and takes {gib(held)}{left}",
        "warning",
        {"pid": process.pid, "name": process.name, "memory_bytes": process.memory_bytes, "free_bytes": free},
        f"See what it is (ps -fp {process.pid}); train on another GPU, or have it use another one",
        kind=str(process.pid),
    )
