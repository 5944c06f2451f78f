"""Counts the steps of each fit by the end of the attempt that finished a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.journal.journal import Event


def reached(events: Sequence[Event], attempt: int) -> dict[int, int]:
    """By the number of each fit or loop that this attempt trained, resumed or returned, the steps of the run by then.

    It need not have finished: a script may leave a loop by `break`. One whose checkpoint holds more epochs than the
    script asked for is not among them, nor one that was interrupted.
    """
    own = [event for event in events if event.attempt == attempt and not event.role.startswith("worker")]
    of_fits = [
        event for event in own if event.name in ("checkpoint", "resumed", "fit-finished") and "fit" in event.data
    ]
    over = interrupted(events, attempt)
    over |= {event.data["fit"] for event in of_fits if event.data.get("over") or event.data.get("kind") == "over"}
    found: dict[int, int] = {}
    for event in of_fits:
        number, field = event.data["fit"], "reached" if event.name == "fit-finished" else "steps"
        if number not in over:
            found[number] = max(found.get(number, 0), event.data.get(field, 0))
    return found


def interrupted(events: Sequence[Event], attempt: int) -> set[int]:
    """The numbers of the fits and loops that a KeyboardInterrupt ended in this attempt."""
    found: set[int] = set()
    for event in events:
        if event.attempt == attempt and not event.role.startswith("worker") and "fit" in event.data:
            if event.name == "interrupted":
                found.add(event.data["fit"])
            elif event.name == "fit-finished":
                found.discard(event.data["fit"])
    return found
