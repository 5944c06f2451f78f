"""Another process that comes to a GPU of the script and takes memory there. Pure.

Threshold: 1 GiB, oomph's own, so that a bare CUDA context or a desktop is none. Processes that were there before the
script are no news; those of the script are its own.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.detectors.rising import gib
from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuProcess, GpuSample
from oomph.monitor.window import Window

FAULTS = ("device-oom-other-process",)
EVERY = 0.0  # processes are in few samples
_LEAST_BYTES = 1 << 30


def find(window: Window) -> Iterable[Finding]:
    """Who has come to a GPU on which the script is, and is still there."""
    for gpu in window.gpus():
        if gpu.processes and any(process.own for process in gpu.processes):
            for process in gpu.processes:
                arrival = window.arrival(gpu.uuid, process.pid)
                if arrival is not None and arrival.to_the_script and not process.own:
                    held = arrival.rise_bytes if process.memory_bytes is None else process.memory_bytes
                    if held >= _LEAST_BYTES:
                        yield _finding(window, gpu, process, held)


def _finding(window: Window, gpu: GpuSample, process: GpuProcess, held: float) -> Finding:
    values = window.latest(gpu.uuid)
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
