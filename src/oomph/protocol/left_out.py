"""The records that `--skip-corrupt` left out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph.journal.events import RecordsLeftOut
from oomph.journal.journal import Event
from oomph.protocol.reasons import Reason, because

_MOST_NAMED = 5


def left_out(events: Iterable[Event]) -> Reason | None:
    """The reason that names a run's left-out records; None if none are known."""
    records: dict[str, None] = {}
    told, complete = False, True
    for event in events:
        match event.fact:
            case RecordsLeftOut(records=named, complete=is_complete):
                records |= dict.fromkeys(named)
                told, complete = True, complete and is_complete
    return records_left_out([*records], complete) if told else None


def records_left_out(records: Sequence[str], complete: bool) -> Reason:
    """The reason that these records were left out.

    Args:
        records: in words; empty if they could not be found.
        complete: False if there may be others.
    """
    named = ", ".join(records[:_MOST_NAMED])
    more = f" and {len(records) - _MOST_NAMED} more" if len(records) > _MOST_NAMED else ""
    return because("left-out", count=len(records), named=named + more, complete=complete)
