"""Detects leaks by what grows, before they have taken much memory, and names the cause of leaks found otherwise. Pure.

From outside, a buffer that fills up looks like a leak. Censuses from inside the script's process tell them apart:
healthy training does not accumulate figures, models or graphs, and code that fills a buffer also limits it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from oomph.monitor.detector import detector
from oomph.monitor.finding import Finding
from oomph.monitor.leak_cause import LeakCause
from oomph.monitor.outlook import Outlook, amount, remaining_seconds, share_of_room
from oomph.monitor.window import Window

TENSORS, HOST = "TensorFlow's memory", "host memory"
"""The subjects of findings about leaks."""
_SHARES = {"counted": 0.15, "container": 0.2, "child": 0.3, "kept by key": 0.4}
"""The minimum share of the free memory that growth of each kind must have taken."""
_LEAST_BYTES = 32 << 20
_FEW_CENSUSES, _ENOUGH_ROOM = 6, 0.5
"""The number of censuses after which what grows is known, if it can be, and the minimum share of the machine's memory
that must be free to wait for them."""
_SPIKE_SECONDS = 10.0
"""The time, in seconds, of which the lowest memory use counts. A checkpoint may need much memory for a moment."""
_STALE_SECONDS, _STALE_OF_GROWTH = 120.0, 0.5
"""The time, in seconds and as a share of the growth's length, without a census after which growth has stopped."""


class _Growth(NamedTuple):
    subject: str
    what: str
    bytes: float
    room: float | None
    """The memory that is still free, in bytes, or None if no limit is known."""


@detector("memory-leak", every=2.0)
def named_leak(window: Window) -> Iterator[Finding]:
    """A leak whose cause is known, because the same things have grown in several consecutive censuses.

    A census counts what the script's process holds: the items of its containers, by owner, and its figures, models,
    graphs, iterators, tapes, writers and threads. One is taken whenever memory has grown by 16 MiB, at most for 0.5 %
    of the time, or sooner once growth has taken 2 % of the free memory. Growth is reported once it has continued over
    four censuses and has taken enough of the free memory: 15 %, if it consists of objects that healthy training does
    not accumulate; 40 %, if the script keeps these by key in a dict; 20 %, if it is a container or array that the
    script's code does not limit; 30 %, if it is a child process. A container that is limited, levels off, or takes over
    the items of another is a buffer, which only the other detectors of leaks report. Nothing is reported if training
    ends before memory does. Thresholds: oomph's own, measured on real scripts (benchmarks/real_leaks).
    """
    cause = window.cause
    if cause is None or cause.kind not in _SHARES or _has_stopped(cause, window.newest.time):
        return
    growths = [each for each in _growths(window, cause) if each.bytes >= _LEAST_BYTES]
    growth = max(growths, key=lambda each: share_of_room(each.bytes, each.room), default=None)
    if growth is None or share_of_room(growth.bytes, growth.room) < _SHARES[cause.kind]:
        return
    rate = growth.bytes / max(cause.until - cause.since, 1.0)
    outlook = Outlook(rate, growth.room, 1.0, remaining=remaining_seconds(window.newest.training))
    if outlook.is_in_time:
        yield named(_finding(growth, rate, outlook), cause)


def _has_stopped(cause: LeakCause, now: float) -> bool:
    return now - cause.until > max(_STALE_SECONDS, _STALE_OF_GROWTH * (cause.until - cause.since))


def _growths(window: Window, cause: LeakCause) -> Iterator[_Growth]:
    training, host = window.newest.training, window.newest.host
    limit, held = (training.get(f"allocator_{which}_bytes") for which in ("limit", "in_use"))
    if limit is not None and held is not None:
        yield _Growth(TENSORS, "tensor memory", cause.tensor_growth, max(limit - held, 0.0))
    used = [sample.host.get("memory_used_bytes", 0.0) for sample in window.last(_SPIKE_SECONDS) if sample.host]
    if used:
        free = host.get("memory_total_bytes", 0.0) - min(used)
        yield _Growth(HOST, "the script's memory", cause.resident_growth, max(free, 0.0))


def _finding(growth: _Growth, rate: float, outlook: Outlook) -> Finding:
    return Finding(
        "memory-leak",
        growth.subject,
        f"{growth.what} is growing by {amount(rate * 60)} a minute{outlook.text}",
        outlook.severity,
        {"bytes_per_second": round(rate), "grown_bytes": round(growth.bytes), **outlook.evidence},
    )


def named(finding: Finding, cause: LeakCause | None) -> Finding:
    """Add what grows to a finding, and the remedy for it."""
    if cause is None or (cause.kind == "child" and finding.subject == TENSORS):
        return finding
    return replace(
        finding,
        message=f"{finding.message}; {cause.text}",
        remedy=cause.remedy,
        evidence={**finding.evidence, "grows": {"what": cause.what, "name": cause.name}},
    )


def is_being_named(window: Window) -> bool:
    """True if the next censuses will tell what grows, and there is memory left to wait for them."""
    censuses, host = window.censuses, window.newest.host
    if window.cause is not None or not 0 < len(censuses) < _FEW_CENSUSES:
        return False
    used, total = host.get("memory_used_bytes", 0.0), host.get("memory_total_bytes", 0.0)
    return window.newest.time - censuses[-1].time <= _STALE_SECONDS and total - used >= _ENOUGH_ROOM * total


def needs_no_hedge(cause: LeakCause | None, room: float | None) -> bool:
    """True if growth is known to be a leak, which `named_leak` reports in time, or a buffer for which there is room."""
    if cause is None or cause.kind in _SHARES:
        return cause is not None
    return cause.still_to_come is not None and room is not None and cause.still_to_come < room
