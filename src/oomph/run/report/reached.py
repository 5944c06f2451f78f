"""Counts the steps of each fit by the end of the attempt that finished a run. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from oomph.journal.events import CheckpointSaved, FitFinished, Interrupted, Resumed
from oomph.journal.journal import Event


def reached(events: Sequence[Event], attempt: int) -> dict[int, int]:
    """The steps of the run by the end of each fit or loop that this attempt trained, resumed or returned, by number.

    It need not have finished: a script may leave a loop by `break`. Interrupted ones are left out, and those whose
    checkpoint holds more epochs than the script asked for.
    """
    own = [event for event in events if event.attempt == attempt and not event.role.startswith("worker")]
    over, found = interrupted(events, attempt), dict[int, int]()
    for event in own:
        match event.fact:
            case CheckpointSaved(fit=int(number), steps=steps):
                found[number] = max(found.get(number, 0), steps)
            case Resumed(fit=int(number), steps=steps, kind=kind):
                found[number] = max(found.get(number, 0), steps)
                over |= {number} if kind == "over" else set()
            case FitFinished(fit=int(number), reached=steps, over=is_over):
                found[number] = max(found.get(number, 0), steps or 0)
                over |= {number} if is_over else set()
    return {number: steps for number, steps in found.items() if number not in over}


def interrupted(events: Sequence[Event], attempt: int) -> set[int]:
    """The numbers of the fits and loops of this attempt that a KeyboardInterrupt ended."""
    found: set[int] = set()
    for event in events:
        if event.attempt == attempt and not event.role.startswith("worker"):
            match event.fact:
                case Interrupted(fit=int(number)):
                    found.add(number)
                case FitFinished(fit=int(number)):
                    found.discard(number)
    return found
