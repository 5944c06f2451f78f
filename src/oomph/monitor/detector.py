"""A detector: a pure function of the latest samples, with the fault pages of its findings and its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from oomph.monitor.finding import Finding
from oomph.monitor.window import Window

Find = Callable[[Window], Iterable[Finding]]


@dataclass(frozen=True)
class Detector:
    """One kind of fault, and how to find it.

    The first line of the function's docstring states the fault. The rest explains what counts as a finding, and gives
    the source of each threshold; docs/reference/monitor-findings.md is generated from both. A detector that needs more
    than the newest sample reads earlier ones from the window.
    """

    find: Find
    """The function that returns what is currently wrong. It is called when the window's newest sample is added."""
    faults: tuple[str, ...]
    """The fault pages that its findings refer to."""
    every: float
    """The time, in seconds, between checks."""

    @property
    def name(self) -> str:
        """The qualified name of the detector's function."""
        return f"{self.find.__module__}.{self.find.__qualname__}"

    @property
    def description(self) -> str:
        """The function's docstring: the fault in one line, then what counts as a finding."""
        return self.find.__doc__ or ""


def detector(*faults: str, every: float) -> Callable[[Find], Detector]:
    """Turn the decorated function into a Detector.

    Args:
        faults: the fault pages that its findings refer to.
        every: the time, in seconds, between checks.
    """
    return lambda find: Detector(find, faults, every)
