"""Calls detectors when they are due, and returns new and ended findings. Pure, except that it remembers findings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oomph.monitor.detector import Detector
from oomph.monitor.detectors import DETECTORS
from oomph.monitor.finding import SEVERITIES, Finding, FindingChanges, FindingEnded
from oomph.monitor.sample import Sample
from oomph.monitor.window import Window

_PATIENCE_SECONDS, _LOOKS = 60.0, 3
"""The time in seconds, and the number of checks, for which a finding must be absent before it counts as ended."""
_PAUSE_SECONDS = 600.0
"""The time, in seconds, during which a recurring finding is not reported again.

If it does not recur for that long, the finding is forgotten.
"""

_Key = tuple[str, str, str]
"""The fault, subject and kind of a finding."""


class _Known(NamedTuple):
    """A finding that has been reported."""

    rank: int
    """The highest severity reported so far, as an index into `SEVERITIES`."""
    begin: float
    last: float
    """The Unix time when the finding was last detected; `begin` is when it was first detected."""
    patience: float
    is_over: bool = False


class Detection:
    """Receives the samples of a run, oldest first, and returns the changes that each one causes."""

    def __init__(self, detectors: Sequence[Detector] = DETECTORS) -> None:
        self._detectors = detectors
        self._window = Window()
        self._due = [0.0] * len(detectors)
        self._known: dict[_Key, _Known] = {}
        self._failed: set[int] = set()
        self.problem = ""
        """The error raised by a detector that failed. That detector is skipped from then on."""

    def take(self, sample: Sample) -> FindingChanges:
        """Add a sample. Return the findings to report, and those that recurred or ended."""
        self._window.append(sample)
        now = sample.time
        self._forget(now)
        told, returned = [], []
        for number, detector in enumerate(self._detectors):
            waits = 0 < self._due[number] - now <= detector.every  # a longer wait means that the clock was set back
            if waits or number in self._failed:
                continue
            self._due[number] = now + detector.every
            for finding in self._ask(number):
                known = self._known.get(_key(finding))
                self._known[_key(finding)] = _made(known, finding, now, detector.every)
                if known is None or known.rank < SEVERITIES.index(finding.severity):
                    told.append(finding)
                elif known.is_over:
                    returned.append(finding)
        return FindingChanges(tuple(told), tuple(returned), tuple(self._ended(now)))

    @property
    def active(self) -> list[_Key]:
        """The (fault, subject, kind) of each active finding."""
        return [key for key, known in self._known.items() if not known.is_over]

    def _ask(self, number: int) -> list[Finding]:
        """Return a detector's findings. If it raises, it is never called again, since it would fail every time."""
        detector = self._detectors[number]
        try:
            return list(detector.find(self._window))
        except Exception as error:
            self._failed.add(number)
            self.problem = f"{detector.name} failed: {type(error).__name__}: {error}"
            return []

    def _ended(self, now: float) -> list[FindingEnded]:
        over = {
            key: known
            for key, known in self._known.items()
            if not known.is_over and abs(now - known.last) >= known.patience
        }
        self._known |= {key: known._replace(is_over=True) for key, known in over.items()}
        return [FindingEnded(*key, known.last, max(known.last - known.begin, 0.0)) for key, known in over.items()]

    def _forget(self, now: float) -> None:
        """Forget findings that ended long ago, so that they are reported if they recur."""
        self._known = {
            key: known
            for key, known in self._known.items()
            if not known.is_over or abs(now - known.last) < _PAUSE_SECONDS
        }


def _key(finding: Finding) -> _Key:
    return finding.fault, finding.subject, finding.kind


def _made(known: _Known | None, finding: Finding, now: float, every: float) -> _Known:
    """Return the updated record of a finding that was just detected."""
    rank = SEVERITIES.index(finding.severity)
    if known is None:
        return _Known(rank, now, now, max(_PATIENCE_SECONDS, _LOOKS * every))
    rank = max(rank, known.rank)
    if known.is_over:
        return _Known(rank, now, now, _PAUSE_SECONDS)
    return known._replace(rank=rank, last=now)
