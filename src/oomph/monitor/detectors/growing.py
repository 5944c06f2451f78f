"""Memory that grows, as seen from outside: resident memory of the script, and what it holds of each GPU. Pure.

From outside, a shuffle buffer that takes 20 minutes to fill is a leak until it stops, so growth is called a leak after
25 minutes; before, it is only a notice, and only if the limit is near. Thresholds: measured on the development half of
benchmarks/leak_set. TensorFlow's pool on a GPU hides leaks, since it is taken at once or grows by doubling: `leak`
looks inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from oomph.monitor.finding import Finding
from oomph.monitor.growth import Gates, Growth, Point, steady_growth
from oomph.monitor.outlook import Outlook, amount, remaining_seconds
from oomph.monitor.sample import GpuSample, Sample
from oomph.monitor.window import SECONDS, Window

FAULTS = ("memory-leak",)
EVERY = 60.0
_MIB = 1 << 20
_LEAK = Gates(readings=64, least_bytes=96 * _MIB, still=0.94, straight=20.0)
_LEAK_SECONDS = 25 * 60.0
_EARLY_SECONDS = 5 * 60.0
_NEAR_SECONDS = 20 * 60.0
"""Growth that is not yet called a leak is told when the limit is as near as this."""
_FAR_SECONDS = 7 * 86400.0
"""Growth whose limit is further away than a week is not worth a word."""
_START_SECONDS = 120.0
"""How long imports, data and the first step take, whose memory is no growth."""


def find(window: Window) -> Iterator[Finding]:
    """Growth of the script's memory, on the host and on each GPU."""
    samples = window.last(SECONDS)
    newest = samples[-1]
    host = newest.host
    room = host.get("memory_total_bytes", 0.0) - host.get("memory_used_bytes", 0.0)
    resident = [(s.time, s.process["resident_bytes"]) for s in samples if "resident_bytes" in s.process]
    yield from _look(newest, "host memory", "the script's memory", resident, room if host else None)
    for gpu in newest.gpus:
        values = gpu.values
        room = values.get("memory_total_bytes", 0.0) - values.get("memory_used_bytes", 0.0)
        name = f"GPU {gpu.index}"
        yield from _look(
            newest, name, f"what the script holds of {name}", _held(samples, gpu), room if values else None
        )


def _held(samples: Sequence[Sample], gpu: GpuSample) -> list[Point]:
    """What the script's processes hold of a GPU, wherever the driver was asked and said it."""
    points = []
    for sample in samples:
        here = next((each for each in sample.gpus if each.uuid == gpu.uuid), None)
        own = [each.memory_bytes for each in here.processes or () if each.own] if here else []
        if own and None not in own:
            points.append((sample.time, float(sum(size or 0 for size in own))))
    return points


def _look(newest: Sample, subject: str, what: str, points: list[Point], room: float | None) -> Iterator[Finding]:
    """A leak, or growth that is near the limit."""
    points = [point for point in points if point[0] >= points[0][0] + _START_SECONDS]
    growth = steady_growth(points, _LEAK)
    if growth is None:
        return
    remaining = remaining_seconds(newest.training)
    outlook = Outlook(growth.rate, None if room is None else max(room, 0.0), 1.0, remaining=remaining)
    seconds, left = growth.end - growth.begin, outlook.seconds
    if seconds >= _LEAK_SECONDS and (left is None or left <= _FAR_SECONDS):
        yield _finding(subject, what, growth, outlook)
    elif seconds >= _EARLY_SECONDS and left is not None and left <= _NEAR_SECONDS:
        yield replace(
            _finding(subject, f"{what} may only be filling up: it", growth, outlook), severity="notice", kind="filling"
        )


def _finding(subject: str, what: str, growth: Growth, outlook: Outlook) -> Finding:
    evidence = {
        "bytes_per_second": round(growth.rate),
        "grown_bytes": round(growth.grown),
        "since": growth.begin,
        "until": growth.end,
        **outlook.evidence,
    }
    message = f"{what} grows by {amount(growth.rate * 60)} a minute{outlook.text}"
    return Finding(FAULTS[0], subject, message, outlook.severity, evidence)
