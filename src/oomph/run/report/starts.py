"""How often a run was started again, and by whom. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.journal.events import RunStarted
from oomph.journal.journal import Event, events_of


def restarts_of(events: Sequence[Event]) -> int:
    """How often oomph restarted the script. An attempt counts from any event of it: its first may be lost."""
    attempts = {event.attempt for event in events} - {0}
    return max(0, len(attempts) - 1 - resumes_of(events))


def resumes_of(events: Sequence[Event]) -> int:
    """How often the user, or a scheduler, started the run again: each call of oomph begins with an event of its own."""
    return len({event.attempt for event in events_of(events, RunStarted) if event.attempt > 1})
