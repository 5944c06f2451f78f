"""The records that `--skip-corrupt` left out, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oomph.journal.journal import Event
from oomph.terminal.amounts import counted

_MOST_NAMED = 5


def left_out(events: Iterable[Event]) -> str:
    """What was left out in a run; empty if nothing was, as far as is known."""
    records: dict[str, None] = {}
    told, complete = False, True
    for event in events:
        if event.name == "records-left-out":
            named = event.data.get("records")
            records |= dict.fromkeys(map(str, named if isinstance(named, list) else ()))
            told, complete = True, complete and event.data.get("complete") is True
    return left_out_in_words([*records], complete) if told else ""


def left_out_in_words(records: Sequence[str], complete: bool) -> str:
    """ "left out 2 corrupt records: a.jpg, b.jpg".

    Args:
        records: in words; empty if they could not be found.
        complete: False if there may be others.
    """
    if not records:
        return "left out corrupt records whose names could not be found"
    named = ", ".join(records[:_MOST_NAMED])
    more = f" and {len(records) - _MOST_NAMED} more" if len(records) > _MOST_NAMED else ""
    least = "" if complete else "at least "
    return f"left out {least}{counted(len(records), 'corrupt record')}: {named}{more}"
