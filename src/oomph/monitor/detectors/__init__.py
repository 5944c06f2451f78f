"""What the monitor finds, one module per detector; `DETECTORS` lists them all. Pure.

A detector is a module with

    FAULTS: tuple[str, ...]                               the pages of its findings
    EVERY: float                                          seconds between two looks
    def find(window: Window) -> Iterable[Finding]         what is wrong now; called on the window's newest sample

The first line of its docstring says what it finds, the rest what counts as that, and the source of each threshold:
docs/reference/monitor-findings.md is made of them. `detection.py` tells each finding once. A detector that needs more
than the newest samples asks the window for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from oomph.monitor.detectors import (
    device_memory,
    driver_events,
    driver_silent,
    gpu_idle,
    gpu_lost,
    growing,
    host_memory,
    input_bound,
    leak,
    loss_spike,
    memory_errors,
    not_finite,
    other_process,
    pcie,
    recovery_action,
    straggler,
    temperature,
    throttling,
)
from oomph.monitor.finding import Finding
from oomph.monitor.window import Window


class Detector(Protocol):
    """The interface of a detector module."""

    EVERY: float

    @property
    def FAULTS(self) -> tuple[str, ...]:
        """The names of the pages of its findings."""

    def find(self, window: Window, /) -> Iterable[Finding]:
        """What is wrong now."""


DETECTORS: tuple[Detector, ...] = (
    driver_events,
    gpu_lost,
    driver_silent,
    memory_errors,
    recovery_action,
    not_finite,
    device_memory,
    leak,
    growing,
    other_process,
    host_memory,
    temperature,
    throttling,
    pcie,
    straggler,
    input_bound,
    gpu_idle,
    loss_spike,
)
"""All detectors. A new one is a module, and its name here."""
