"""Detection: asks the detectors when they are due, and lets each finding through once. Pure but for its memory."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.monitor.detectors import DETECTORS, Detector
from oomph.monitor.finding import Finding
from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

_OVER_SECONDS = 600.0
"""A finding that has not been made for so long is over, and is told again when it comes back."""


class Detection:
    """Takes the samples of a run, oldest first, and returns what is new in each."""

    def __init__(self, detectors: Sequence[Detector] = DETECTORS) -> None:
        self._detectors = detectors
        self._window = Window()
        self._due = [0.0] * len(detectors)
        self._made: dict[tuple[str, str, str], float] = {}
        self._failed: set[int] = set()
        self.problem = ""
        """Why a detector is not asked any more: it failed. The others are."""

    def take(self, sample: Sample) -> list[Finding]:
        """Add a sample; returns the findings that are told now."""
        self._window.append(sample)
        new = []
        for number, detector in enumerate(self._detectors):
            waits = 0 < self._due[number] - sample.time <= detector.EVERY  # more: the clock was set back
            if waits or number in self._failed:
                continue
            self._due[number] = sample.time + detector.EVERY
            new += [finding for finding in self._ask(number) if self._is_new(finding, sample.time)]
        return new

    @property
    def active(self) -> list[tuple[str, str]]:
        """(fault, subject) of what is wrong now or was until a short while ago."""
        return list(dict.fromkeys((fault, subject) for fault, subject, _ in self._made))

    def _ask(self, number: int) -> list[Finding]:
        """What a detector finds; one that fails is left out from now on, since it would fail every time."""
        detector = self._detectors[number]
        try:
            return list(detector.find(self._window))
        except Exception as error:
            self._failed.add(number)
            self.problem = f"{getattr(detector, '__name__', detector)} failed: {type(error).__name__}: {error}"
            return []

    def _is_new(self, finding: Finding, now: float) -> bool:
        self._made = {key: at for key, at in self._made.items() if abs(now - at) < _OVER_SECONDS}
        key = (finding.fault, finding.subject, finding.kind)
        known = key in self._made
        self._made[key] = now
        return not known
