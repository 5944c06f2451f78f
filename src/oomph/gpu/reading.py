"""Reading: what a GPU reported at one moment, from any source. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Holder(NamedTuple):
    """A process that holds memory on a GPU."""

    pid: int
    memory_bytes: int | None
    """The memory, in bytes, that the process holds, or None if the driver does not report it."""


class DriverEvent(NamedTuple):
    """An event that the driver reported: `kind` is "xid", "ecc-double-bit", "unavailable" or "lost"."""

    kind: str
    code: int = 0
    """The Xid number, or 0 for other kinds of events."""


@dataclass(frozen=True)
class Reading:
    """A reading of a GPU or MIG instance. Values that it does not report are absent."""

    index: int
    """The NVML index of the GPU or, for a MIG instance, of its GPU. It changes when an earlier GPU disappears."""
    uuid: str
    """The UUID of the GPU; empty if it was lost before reporting one."""
    name: str = ""
    bus: str = ""
    """The PCI address, as in 00000000:3B:00.0; empty if unknown."""
    values: Mapping[str, float] = field(default_factory=dict)
    """The values, by the keys of the "gpu" scope in `monitor/metrics.py`. Slow ones are present only when read."""
    processes: tuple[Holder, ...] | None = None
    """The processes that hold memory, or None if they were not requested this time or the GPU did not answer."""
    events: tuple[DriverEvent, ...] = ()
    problem: str = ""
    """The reason why the GPU does not answer. There are then no values."""
