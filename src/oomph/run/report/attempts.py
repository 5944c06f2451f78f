"""Examines a run's attempts: which were restarts, what stopped the latest, what each reached and repeated. Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from oomph.journal.events import (
    AttemptEnded,
    CheckpointSaved,
    Decided,
    FitFinished,
    FitStarted,
    Interrupted,
    LoopSeen,
    RepeatCompared,
    Resumed,
    ResumedItself,
    RunStarted,
    WorkerFailed,
)
from oomph.journal.journal import ByKind, Event, by_attempt, events_of, facts, last
from oomph.protocol.coverage import Range
from oomph.terminal.endings import ProcessEnd


def restarts_of(events: Sequence[Event]) -> int:
    """Count the restarts by oomph. Any event counts as proof of an attempt, since its first event may be lost."""
    attempts = {event.attempt for event in events} - {0}
    return max(0, len(attempts) - 1 - resumes_of(events))


def resumes_of(events: Sequence[Event]) -> int:
    """Count the restarts by the user or a scheduler, each of which adds a `RunStarted` event."""
    return len({event.attempt for event in events_of(events, RunStarted) if event.attempt > 1})


_BY = {
    signal.SIGINT: "stopped by Ctrl-C (SIGINT)",
    signal.SIGHUP: "stopped by SIGHUP (the terminal was closed)",
    signal.SIGTERM: "stopped by SIGTERM",
}
_SOMEHOW = "stopped from outside"
_HANG = "hang"
_SHELL = 128
"""The number that a shell adds to n in the exit code that reports death by signal n."""


def stopped(events: Sequence[Event]) -> str:
    """Describe how the latest attempt was stopped, or return an empty string if it was not.

    An attempt counts as stopped unless it exited on its own, was preempted or is still running.
    """
    newest = max((event.attempt for event in events), default=0)
    decided = last([event for event in events if event.attempt == newest], Decided)
    return "" if decided is None else _stopped(decided)


def _stopped(decided: Decided) -> str:
    ending, code = decided.ending or {}, decided.exit_code
    if decided.action != "finish" or not code:
        return ""
    if ending.get("called_off"):
        return _by(ending["called_off"])
    if ending.get("interrupted") and (ending.get("stopped") or code == _SHELL + signal.SIGINT):
        return _BY[signal.SIGINT]
    return _by(code - _SHELL) if ending.get("stopped") else ""


def _by(signum: object) -> str:
    return next((words for known, words in _BY.items() if known == signum), _SOMEHOW)


def failed_first(events: Sequence[Event]) -> WorkerFailed | None:
    """Return the failure of the worker that ended the newest attempt, or None if there is only one, or none failed."""
    newest = max((event.attempt for event in events), default=0)
    own = facts([event for event in events if event.attempt == newest], WorkerFailed)
    return next((failed for failed in own if failed.cause), None)


def end_in_words(exit_code: int, failed: WorkerFailed | None) -> str:
    """Describe the end of a run that failed, by the worker that failed first if there are several."""
    if failed is None:
        return f"ended with exit code {exit_code}"
    how = "made no progress" if failed.fault == _HANG else ProcessEnd(failed.returncode).predicate
    if failed.returncode == exit_code:
        return f"{failed.who} {how}"
    return f"ended with exit code {exit_code}, since {failed.who} {how}"


def reached(events: Sequence[Event], attempt: int) -> dict[int, int]:
    """Return, by number, the run's step count at the end of each fit or loop that this attempt trained or restored.

    A loop need not have run to completion, since a script may leave it with `break`. The result excludes interrupted
    fits and loops, and those whose checkpoint has more epochs than the script asked for.
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
    """Return the numbers of the fits and loops in this attempt that a KeyboardInterrupt ended."""
    found: set[int] = set()
    for event in events:
        if event.attempt == attempt and not event.role.startswith("worker"):
            match event.fact:
                case Interrupted(fit=int(number)):
                    found.add(number)
                case FitFinished(fit=int(number)):
                    found.discard(number)
    return found


class Repeat(NamedTuple):
    """The steps that one attempt repeated."""

    steps: int = 0
    saved: int = 0
    """The number of repeated steps in the attempt's last checkpoint, on which later attempts build."""
    in_all: int = 0
    """The total number of repeated steps, including steps of fits that the attempt finished before it returned to a
    different fit."""

    def of(self, is_last: bool) -> Range:
        """Return how many repeated steps a comparison must cover: all of them, or only those that still matter."""
        return Range(least=self.steps) if is_last else Range(most=self.saved)


def repeats(events: Iterable[Event]) -> Mapping[int, Repeat]:
    """Return the steps that each attempt repeated, by attempt number.

    An attempt repeats the steps from the point where oomph or the script itself resumed, up to the furthest step of any
    earlier attempt, or up to its own last step if that comes sooner.
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
    """Count all repeated steps.

    Each stretch of them starts where a fit resumed, or at the first step, and ends before the next fit is restored. An
    attempt that was killed may have left the witness of one more step than it counted.
    """
    total = start = at = 0
    for event in attempt:
        match event.fact:
            case Resumed(steps=steps) | ResumedItself(steps=steps):
                total += max(0, min(reached, at) - start)
                start = at = steps
            case LoopSeen(restored=restored) if not at:  # after a fit, oomph may have restored the optimizer
                start = at = restored
            case RepeatCompared(covered=int(covered)):
                reached = max(reached, start + covered)
            case FitFinished(reached=int(steps)):
                at = max(at, steps)
    return total + max(0, min(reached, end) - start)
