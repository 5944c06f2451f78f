"""Measures how long a run's restarts took. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from oomph.journal.events import AttemptEnded, AttemptStarted, FitStarted, LoopSeen, Resumed, RunStarted
from oomph.journal.journal import Event, by_attempt, elapsed, last

_FINISHED = "finished"
"""The kind of resume that only returns the result of a finished fit, so that no step follows."""


def seconds_restarting(events: Sequence[Event]) -> float:
    """Return the total time, in seconds, from each death to the first new step of the attempt that oomph then started.

    Attempts that the user started with `--resume` do not count, since nobody knows how long they were away.
    """
    return sum(
        _between(before, after)
        for before, after in pairwise(by_attempt(events))
        if last(after, RunStarted) is None and last(after, AttemptStarted) is not None
    )


def _between(before: Sequence[Event], after: Sequence[Event]) -> float:
    return elapsed(_death(before), _first_step(after))


def _death(attempt: Sequence[Event]) -> float:
    """Return the Unix time at which the script exited, which is recorded only later, after the diagnosis."""
    started = next((event.time for event in attempt if isinstance(event.fact, AttemptStarted)), math.nan)
    ended = last(attempt, AttemptEnded)
    return math.nan if ended is None or ended.returncode is None else started + ended.seconds


def _first_step(attempt: Sequence[Event]) -> float:
    """Return the Unix time at which training resumed or started from scratch, or NaN if it did neither."""
    resumed = (event.time for event in attempt if _goes_on(event.fact))
    began = (event.time for event in attempt if isinstance(event.fact, (FitStarted, LoopSeen)))
    return next(resumed, next(began, math.nan))


def _goes_on(fact: object) -> bool:
    return isinstance(fact, Resumed) and fact.kind != _FINISHED
