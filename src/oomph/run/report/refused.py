"""Lists the checkpoints that a resume could not use, and counts the steps that this cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from oomph.journal.events import AttemptEnded, CheckpointRefused, Resumed
from oomph.journal.journal import Event, by_attempt, facts, last


@dataclass(frozen=True)
class Refused:
    """A checkpoint that was refused, and the reason why."""

    name: str
    reason: str
    """The reason, such as "tensors.bin does not match its checksum"."""

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


def refused_in(events: Iterable[Event]) -> tuple[Refused, ...]:
    """Return the distinct checkpoints that were refused, except those that a later try used after all."""
    events = list(events)
    used = {resumed.name for resumed in facts(events, Resumed)}
    found = {each.name: each.reason for each in facts(events, CheckpointRefused) if each.name}
    return tuple(Refused(name, _short(name, reason)) for name, reason in found.items() if name not in used)


def steps_lost_to_refusals(events: Sequence[Event]) -> int:
    """Count the saved steps that have to be trained again because their checkpoint was refused."""
    attempts = by_attempt(events)
    return sum(
        max(0, ended.saved - resumed_at(following))
        for attempt, following in pairwise(attempts)
        if (ended := last(attempt, AttemptEnded)) is not None and refused_in(following)
    )


def resumed_at(attempt: Iterable[Event]) -> int:
    """Return the step of the run from which an attempt resumed, or 0 if it started from scratch."""
    return max((resumed.steps for resumed in facts(attempt, Resumed)), default=0)


def _short(name: str, reason: str) -> str:
    """Return the first line of the reason, without the checkpoint's name at the start."""
    lines = reason.removeprefix(f"{name}: ").splitlines()
    return lines[0].strip() if lines else "for an unknown reason"
