"""The reasons no repeated step of a resumed training could be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.journal.events import NoWitnesses
from oomph.journal.journal import Event, facts
from oomph.protocol.reasons import Reason, because


def why_uncompared(events: Iterable[Event]) -> tuple[Reason, ...]:
    """The reasons, each once; the general one if the journal holds no other."""
    found = [each.reason for each in facts(events, NoWitnesses)]
    unwritten = tuple(because("records-unwritten", error=each) for each in dict.fromkeys(found))
    return unwritten or (because("no-records"),)
