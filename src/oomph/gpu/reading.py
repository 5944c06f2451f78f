"""Reading: the answer of one GPU at one moment, from whichever source. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Holder(NamedTuple):
    """A process that holds memory of a GPU."""

    pid: int
    memory_bytes: int | None
    """The memory, in bytes, that the process holds; None if the driver does not say."""


class DriverEvent(NamedTuple):
    """An event that the driver reported: `kind` is "xid", "ecc-double-bit", "unavailable" or "lost"."""

    kind: str
    code: int = 0
    """The number of the Xid; 0 for other kinds."""


@dataclass(frozen=True)
class Reading:
    """One GPU, or one MIG instance. Values that it does not answer are absent."""

    index: int
    """NVML's index; for a MIG instance, the index of its GPU. It changes when an earlier GPU disappears."""
    uuid: str
    """The UUID of the GPU; empty if it was lost before reporting one."""
    name: str = ""
    bus: str = ""
    """The PCI address, as in 00000000:3B:00.0; empty if unknown."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Values by the keys of the scope "gpu" in `monitor/metrics.py`. Slow ones are present only when read."""
    processes: tuple[Holder, ...] | None = None
    """The processes that hold memory; None if not requested this time, or not answered."""
    events: tuple[DriverEvent, ...] = ()
    problem: str = ""
    """The reason that the GPU does not answer; it then has no values."""
