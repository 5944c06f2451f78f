"""What the attempt that finished a run has trained of each fit. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from oomph.journal import Event


def reached(events: Iterable[Event], attempt: int) -> dict[int, int]:
    """By the number of each fit that this attempt finished or returned, the steps of the run by then.

    A fit whose checkpoint holds more epochs than the script asked for is not among them.
    """
    own = [event for event in events if event.attempt == attempt and not event.role.startswith("worker")]
    returned = {
        event.data["fit"]: event.data.get("steps", 0)
        for event in own
        if event.name == "resumed" and event.data.get("kind") == "finished" and "fit" in event.data
    }
    trained = {
        event.data["fit"]: event.data.get("reached", 0)
        for event in own
        if event.name == "fit-finished" and not event.data.get("over") and "fit" in event.data
    }
    return returned | trained
