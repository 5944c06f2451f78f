"""Memory of the machine, or of its cgroup, near its end, and rising. Pure.

Threshold: 5 % available, at which earlyoom kills by default (earlyoom(1), `-m`); the kernel does so later. It has to
have risen by 2 % of the total within the last 50 minutes: a file system's cache may fill a machine and stay.
"""

from __future__ import annotations

from collections.abc import Iterable

from oomph.monitor.detectors.rising import gib, rise
from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

FAULTS = ("host-oom",)
EVERY = 2.0
_NEAR, _CRITICAL = 0.95, 0.98
_RISE = 0.02


def find(window: Window) -> Iterable[Finding]:
    """Host memory that runs out."""
    used, total = (window.newest.host.get(f"memory_{which}_bytes", 0.0) for which in ("used", "total"))
    if not total or used < _NEAR * total:
        return
    risen = rise(window, lambda sample: sample.host.get("memory_used_bytes"), _RISE * total)
    if risen is None:
        return
    own = window.newest.process.get("resident_bytes")
    share = "" if own is None else f"; the script's processes hold {gib(own)}"
    yield Finding(
        "host-oom",
        "host memory",
        f"{gib(used)} of {gib(total)} are in use ({used / total:.0%}), {risen}{share}",
        "critical" if used >= _CRITICAL * total else "warning",
        {"used_bytes": used, "total_bytes": total, "risen_bytes": risen.amount, "seconds": risen.seconds, "own": own},
    )
