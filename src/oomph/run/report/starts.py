"""Counts a run's restarts, by oomph and by the user. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.journal.events import RunStarted
from oomph.journal.journal import Event, events_of


def restarts_of(events: Sequence[Event]) -> int:
    """The number of restarts by oomph. Any event counts for its attempt: the first may be lost."""
    attempts = {event.attempt for event in events} - {0}
    return max(0, len(attempts) - 1 - resumes_of(events))


def resumes_of(events: Sequence[Event]) -> int:
    """The number of restarts by the user or a scheduler: each writes its own start event."""
    return len({event.attempt for event in events_of(events, RunStarted) if event.attempt > 1})
