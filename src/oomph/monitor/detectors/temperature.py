"""A GPU as hot as its own limit. Pure.

Threshold: the temperature at which this GPU slows itself down, as it reports it (NVML: the T.Limit fields, or
nvmlDeviceGetTemperatureThreshold). A GPU that reports none has no finding. Critical within 2 °C of its shutdown.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.finding import Finding
from oomph.monitor.sample import GpuSample
from oomph.monitor.window import Window

FAULTS = ("thermal-throttle",)
EVERY = 2.0
_SECONDS = 2.0
"""It has to be that hot for so long."""
_SHUTDOWN_CELSIUS = 2.0


def find(window: Window) -> Iterable[Finding]:
    """The GPUs that are too hot."""
    for gpu in window.gpus():
        limits = window.latest(gpu.uuid)
        slowdown = limits.get("temperature_slowdown_celsius")
        if slowdown is None or gpu.values.get("temperature_celsius", 0.0) < slowdown:
            continue
        coolest = min(celsius for _, celsius in window.series(gpu.uuid, "temperature_celsius", _SECONDS))
        if coolest >= slowdown:
            yield _finding(gpu, slowdown, limits.get("temperature_shutdown_celsius"))


def _finding(gpu: GpuSample, slowdown: float, shutdown: float | None) -> Finding:
    celsius = gpu.values["temperature_celsius"]
    is_last = shutdown is not None and celsius >= shutdown - _SHUTDOWN_CELSIUS
    then = "" if shutdown is None else f", and shuts down at {shutdown:.0f} °C"
    return Finding(
        "thermal-throttle",
        gpu.title,
        f"{celsius:.0f} °C: this GPU slows down at {slowdown:.0f} °C{then}",
        "critical" if is_last else "warning",
        {"celsius": celsius, "slowdown_celsius": slowdown, "shutdown_celsius": shutdown},
        kind="near shutdown" if is_last else "temperature",
    )
