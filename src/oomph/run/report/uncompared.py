"""Why no repeated step of a resumed training could be compared, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.journal.journal import Event

NO_RECORD = "the repeated steps had left no record of their results"
_UNWRITTEN = "the records of the steps could not be written"
_OF_THE_GUARD = "no witnesses: "


def why_uncompared(events: Iterable[Event]) -> tuple[str, ...]:
    """The reasons, each once; the general one if the journal holds no other."""
    found = [reason for event in events for reason in [_unwritten(event)] if reason]
    return tuple(dict.fromkeys(found)) or (NO_RECORD,)


def _unwritten(event: Event) -> str:
    reason = str(event.data.get("reason", ""))
    if event.name == "no-witnesses":
        return f"{_UNWRITTEN}: {reason}"
    if event.name == "guard-failed" and reason.startswith(_OF_THE_GUARD):
        return f"{_UNWRITTEN}: {reason.removeprefix(_OF_THE_GUARD)}"
    return ""
