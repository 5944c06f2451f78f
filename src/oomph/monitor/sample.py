"""Sample: what was measured at one moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Values = Mapping[str, float]
"""Measured values by the key of their metric (`metrics.py`). What cannot be measured is absent, never 0."""


@dataclass(frozen=True)
class GpuProcess:
    """A process with memory on a GPU."""

    pid: int
    memory_bytes: int | None
    """The bytes that the process holds; None where the driver does not say, as in some containers."""
    name: str = ""
    own: bool = False
    """True if the process belongs to the watched script."""


@dataclass(frozen=True)
class GpuEvent:
    """An event that the driver reported of a GPU: an Xid error, or a change of its state."""

    kind: str
    """The kind of event: "xid", "ecc-double-bit", "unavailable" or "lost"."""
    code: int = 0
    """The number of the Xid; 0 for other kinds."""
    source: str = "nvml"
    """The source of the event: "nvml" or "kernel"."""
    text: str = ""
    """The line of the kernel's log, if the event comes from there."""


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment."""

    index: int
    uuid: str
    name: str = ""
    values: Values = field(default_factory=dict)
    processes: tuple[GpuProcess, ...] | None = None
    """The processes with memory on the GPU; None: not asked this time, or not allowed."""
    events: tuple[GpuEvent, ...] = ()
    """The events since the last sample."""
    problem: str = ""
    """The reason the GPU did not answer: "GPU is lost", "no answer for 12 s". Its values are then absent."""

    @property
    def title(self) -> str:
        """The name in findings: "GPU 0 (NVIDIA H100)"."""
        return f"GPU {self.index} ({self.name})" if self.name else f"GPU {self.index}"


@dataclass(frozen=True)
class Baseline:
    """The allocator's bytes in use at the same point of epochs, or every so many steps: what stays allocated."""

    step: int
    bytes_in_use: float
    epoch: int = 0
    """The number, from 1, of the epoch that has just ended; 0 within an epoch."""
    time: float = 0.0
    """The Unix time, in seconds."""
    process: int = 0
    """The pid of the training process: another process begins with empty memory."""


@dataclass(frozen=True)
class Sample:
    """One sample. A source that does not answer leaves its part empty and says why in `problems`."""

    time: float
    """The Unix time of the sample, in seconds."""
    gpus: tuple[GpuSample, ...] = ()
    host: Values = field(default_factory=dict)
    process: Values = field(default_factory=dict)
    """Totals of all processes of the watched script."""
    training: Values = field(default_factory=dict)
    """The values from within the training process; empty until it reports."""
    baselines: tuple[Baseline, ...] = ()
    """The baselines that are new since the last sample."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """The reason a source has no values, in words: {"nvml": "the driver does not let this user ask"}."""
