"""Detector: a pure function of the latest samples, with the pages of its findings and its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

Find = Callable[[Window], Iterable[Finding]]


@dataclass(frozen=True)
class Detector:
    """One kind of fault, and how to find it.

    The first line of its docstring says what it finds, the rest what counts as a finding, and the source of each
    threshold: docs/reference/monitor-findings.md is generated from them. A detector that needs more than the newest
    samples asks the window for them.
    """

    find: Find
    """The function that returns what is wrong now; called on the window's newest sample."""
    faults: tuple[str, ...]
    """The pages of its findings."""
    every: float
    """The time, in seconds, between two checks."""

    @property
    def name(self) -> str:
        """The qualified name of the detector's function."""
        return f"{self.find.__module__}.{self.find.__qualname__}"

    @property
    def description(self) -> str:
        """The fault that the detector finds, in one line, and what counts as a finding."""
        return self.find.__doc__ or ""


def detector(*faults: str, every: float) -> Callable[[Find], Detector]:
    """Turn the decorated function into a Detector.

    Args:
        faults: the pages of its findings.
        every: the time, in seconds, between two checks.
    """
    return lambda find: Detector(find, faults, every)
