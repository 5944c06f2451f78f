"""Collects the monitor's findings in a run, and how long each lasted. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from oomph.journal.events import AttemptEnded, FindingMade, FindingOver
from oomph.journal.journal import Event

NOTICE, WARNING, CRITICAL = "notice", "warning", "critical"
"""The severities of findings: no action is needed; something should be done; training fails or is wrong."""
_SEVERITIES = (NOTICE, WARNING, CRITICAL)


@dataclass(frozen=True)
class Found:
    """One finding, with its latest wording."""

    fault: str
    code: str
    """The code of the fault's page, or an empty string if it has no page."""
    subject: str
    kind: str
    message: str
    remedy: str
    severity: str
    """The highest severity reported."""
    attempt: int
    begin: float
    """The Unix time when the finding was first reported. `since` and `end` are Unix times too."""
    since: float
    """The time when the finding last appeared. It may have disappeared and come back since `begin`."""
    end: float | None = None
    """The time when the finding was last seen, or None if the problem may still exist."""
    seconds: float = 0.0
    """The total time, in seconds, that the finding lasted, not counting the time after `since` if `end` is None."""

    def until(self, now: float) -> float:
        """Return when the finding ended, or `now` if the problem may still exist."""
        return now if self.end is None else self.end


def findings_of(events: Iterable[Event]) -> list[Found]:
    """Return every finding in a run, in the order in which they were first reported.

    A finding that recurs within minutes, or becomes more severe, is still one finding. A finding whose end was not
    recorded ends with its attempt.
    """
    reading, attempt = _Reading(), 0
    for event in events:
        if event.attempt != attempt or isinstance(event.fact, AttemptEnded):
            reading.end_all(event.time)
            attempt = event.attempt
        match event.fact:
            case FindingMade() as made:
                reading.add(_read(event, made), made.again)
            case FindingOver(fault=fault, subject=subject, kind=kind, until=until):
                about = (event.attempt, fault, subject, kind)
                reading.end(about, event.time if until is None or not math.isfinite(until) else until)
    return reading.found


def each_once(findings: Iterable[Found]) -> tuple[Found, ...]:
    """Merge findings of the same fault, subject and kind, with the latest wording and the total time."""
    once: dict[tuple[str, str, str], Found] = {}
    for each in findings:
        before = once.get(_key(each))
        if before is not None:
            severity, seconds = _worse(before, each), round(before.seconds + each.seconds, 3)
            each = replace(each, begin=before.begin, severity=severity, seconds=seconds)
        once[_key(each)] = each
    return tuple(once.values())


class _Reading:
    """The findings so far. Adding an event takes constant time, however many findings there are."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self._last: dict[tuple[int, str, str, str], int] = {}
        """Maps each attempt, fault, subject and kind to the index of its last finding."""
        self._open: set[int] = set()

    def add(self, told: Found, again: bool) -> None:
        """Add a finding, or update one that recurs or has become more severe."""
        about = (told.attempt, *_key(told))
        place = self._last.get(about, -1)
        before = self.found[place] if place >= 0 else None
        if before is None or (before.end is not None and not again):
            place = self._last[about] = len(self.found)
            self.found.append(told)
        else:
            since = told.since if before.end is not None else before.since
            severity = _worse(before, told)
            self.found[place] = replace(
                told, severity=severity, begin=before.begin, since=since, seconds=before.seconds
            )
        self._open.add(place)

    def end(self, about: tuple[int, str, str, str], time: float) -> None:
        """End one finding."""
        place = self._last.get(about)
        if place in self._open:
            self._end(place, time)

    def end_all(self, time: float) -> None:
        """End all findings of an attempt that has ended."""
        for place in tuple(self._open):
            self._end(place, time)

    def _end(self, place: int, time: float) -> None:
        each = self.found[place]
        seconds = round(each.seconds + max(time - each.since, 0.0), 3)
        self.found[place] = replace(each, end=time, seconds=seconds)
        self._open.discard(place)


def _worse(one: Found, other: Found) -> str:
    return max(one.severity, other.severity, key=_SEVERITIES.index)


def _key(each: Found) -> tuple[str, str, str]:
    return each.fault, each.subject, each.kind


def _read(event: Event, made: FindingMade) -> Found:
    severity = made.severity if made.severity in _SEVERITIES else WARNING
    about = (made.fault, made.code, made.subject, made.kind, made.message, made.remedy, severity)
    return Found(*about, event.attempt, begin=event.time, since=event.time)
