"""Memory that grows, as seen from outside: resident memory of the script, and what it holds of each GPU. Pure.

From outside, a buffer that fills is a leak until it stops. So growth is called a leak when it has taken 80 % of the
memory that was free, or has gone on for 90 % of what was left of the fit. If that is not known, it is after three hours
that took 20 % of the free memory. Before, it is only a notice: if the limit is near, or after 50 minutes of growth. All
of the run is looked at: the last hour of what levels off looks straight. Thresholds: measured on the development
families of benchmarks/leak_set. TensorFlow's pool on a GPU hides leaks, since it is taken at once or grows by doubling:
`leak` looks inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from oomph.monitor.endurance import share_of_room, takes_most_of_the_plan
from oomph.monitor.finding import Finding
from oomph.monitor.growth import Gates, Growth, Point, steady_growth
from oomph.monitor.outlook import Outlook, amount, remaining_seconds
from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

FAULTS = ("memory-leak",)
EVERY = 60.0
_MIB = 1 << 20
_LEAK = Gates(readings=16, least_bytes=96 * _MIB, still=0.94, straight=20.0)
_OF_ROOM = 0.8
"""Higher than for a GPU: people fill more of a machine's memory on purpose."""
_LEAK_SECONDS, _LEAST_OF_ROOM = 3 * 3600.0, 0.2
"""How long growth has to go on, and how much of the free memory it takes, where the end of the fit is not known."""
_PLANNED_SECONDS = 10 * 60.0
"""The minimum where it is known."""
_OF_ROOM_SECONDS = 4 * 60.0
_EARLY_SECONDS = 5 * 60.0
_NEAR_SECONDS, _LASTING_SECONDS = 20 * 60.0, 50 * 60.0
"""Growth that is not yet called a leak is told when the limit is as near as this, or when it has lasted so long and the
end of the fit is not known."""
_FAR_SECONDS = 7 * 86400.0
"""Growth whose limit is further away than a week is not worth a word."""
_START_SECONDS = 120.0
"""How long imports, data and the first step take, whose memory is no growth."""


def find(window: Window) -> Iterator[Finding]:
    """Growth of the script's memory, on the host and on each GPU."""
    newest = window.newest
    host = newest.host
    room = host.get("memory_total_bytes", 0.0) - host.get("memory_used_bytes", 0.0)
    yield from _look(newest, "host memory", "the script's memory", window.resident, room if host else None)
    for gpu in newest.gpus:
        values = gpu.values
        room = values.get("memory_total_bytes", 0.0) - values.get("memory_used_bytes", 0.0)
        name, points = f"GPU {gpu.index}", window.held(gpu.uuid)
        yield from _look(newest, name, f"what the script holds of {name}", points, room if values else None)


def _look(newest: Sample, subject: str, what: str, points: Sequence[Point], room: float | None) -> Iterator[Finding]:
    """A leak, or growth that is near the limit."""
    points = [point for point in points if point[0] >= points[0][0] + _START_SECONDS]
    growth = steady_growth(points, _LEAK)
    if growth is None:
        return
    remaining = remaining_seconds(newest.training)
    outlook = Outlook(growth.rate, None if room is None else max(room, 0.0), 1.0, remaining=remaining)
    seconds, left = growth.end - growth.begin, outlook.seconds
    if _has_lasted(growth, outlook) and (left is None or left <= _FAR_SECONDS):
        yield _finding(subject, what, growth, outlook)
    elif left is not None and seconds >= _EARLY_SECONDS and left <= _soon(outlook, seconds):
        yield replace(
            _finding(subject, f"{what} may only be filling up: it", growth, outlook), severity="notice", kind="filling"
        )


def _soon(outlook: Outlook, lasted: float) -> float:
    """How near the limit has to be for a notice: before the fit ends, if that is known."""
    if outlook.remaining is None:
        return _FAR_SECONDS if lasted >= _LASTING_SECONDS else _NEAR_SECONDS
    return max(outlook.remaining, _NEAR_SECONDS)


def _has_lasted(growth: Growth, outlook: Outlook) -> bool:
    """Whether growth is more than a buffer that fills."""
    seconds = growth.end - growth.begin
    if seconds >= _OF_ROOM_SECONDS and share_of_room(growth.grown, outlook.room) >= _OF_ROOM:
        return True
    if outlook.remaining is None:
        enough = outlook.room is None or share_of_room(growth.grown, outlook.room) >= _LEAST_OF_ROOM
        return enough and seconds >= _LEAK_SECONDS
    return seconds >= _PLANNED_SECONDS and takes_most_of_the_plan(0.0, seconds, seconds + outlook.remaining)


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
