"""Counts the steps of each attempt that repeat an earlier one's. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from oomph.journal.events import AttemptEnded, FitFinished, FitStarted, LoopSeen, Resumed, ResumedItself
from oomph.journal.journal import ByKind, Event, by_attempt
from oomph.protocol.coverage import Range


class Repeat(NamedTuple):
    """The repeated steps of one attempt."""

    steps: int = 0
    saved: int = 0
    """The number of repeated steps in its last checkpoint, which later attempts build on."""
    in_all: int = 0
    """The number of all repeated steps, including those of fits that it finished before it returned to another one."""

    def of(self, is_last: bool) -> Range:
        """The least and the most repeated steps that a comparison has to cover: all, or those that still matter."""
        return Range(least=self.steps) if is_last else Range(most=self.saved)


def repeats(events: Iterable[Event]) -> Mapping[int, Repeat]:
    """The repeated steps by attempt.

    An attempt repeats the steps from where it resumed, by oomph or by the script itself, up to the furthest
    step of any before, or to its own end if that comes sooner.
    """
    found, reached = {}, 0
    for attempt in by_attempt(events):
        by = ByKind(attempt)
        resumed = [each.steps for each in by.facts(Resumed)]
        resumed += [each.steps for each in by.facts(ResumedItself)]
        resumed += [loop.restored for loop in by.facts(LoopSeen)]
        ended = [each.steps for each in by.facts(AttemptEnded)]
        saved = [each.saved for each in by.facts(AttemptEnded)]
        first = max(resumed, default=0)
        if resumed or by.events(FitStarted):
            steps = max(0, min([reached, *ended]) - first)
            kept = max(0, min([steps, *(each - first for each in saved)]))
            found[attempt[0].attempt] = Repeat(steps, kept, _in_all(attempt, reached, max(ended, default=reached)))
        reached = max([reached, *ended])
    return found


def _in_all(attempt: Iterable[Event], reached: int, end: int) -> int:
    """Count all repeated steps: a stretch begins where a fit resumed, or at the first step, and ends before the next
    return."""
    total = start = at = 0
    for event in attempt:
        match event.fact:
            case Resumed(steps=steps) | ResumedItself(steps=steps):
                total += max(0, min(reached, at) - start)
                start = at = steps
            case LoopSeen(restored=restored) if not at:  # after a fit, oomph may have restored the optimizer
                start = at = restored
            case FitFinished(reached=int(steps)):
                at = max(at, steps)
    return total + max(0, min(reached, end) - start)
