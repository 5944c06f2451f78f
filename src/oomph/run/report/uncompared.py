"""Why no repeated step of a resumed training could be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.journal.journal import Event
from oomph.protocol.reasons import Reason, because


def why_uncompared(events: Iterable[Event]) -> tuple[Reason, ...]:
    """The reasons, each once; the general one if the journal holds no other."""
    found = [str(event.data.get("reason", "")) for event in events if event.name == "no-witnesses"]
    unwritten = tuple(because("records-unwritten", error=each) for each in dict.fromkeys(found))
    return unwritten or (because("no-records"),)
