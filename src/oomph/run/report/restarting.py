"""How long the restarts of a run took. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from oomph.journal.events import AttemptEnded, AttemptStarted, FitStarted, LoopSeen, Resumed, RunStarted
from oomph.journal.journal import Event, by_attempt, last

_FINISHED = "finished"
"""The kind of a resume that only returns the result of a finished fit, so that no step follows."""


def seconds_restarting(events: Sequence[Event]) -> float:
    """Return the time, in seconds, from each death to the first new step of the attempt that oomph started after it.

    An attempt that the user started by `--resume` does not count: nobody knows how long they were away.
    """
    return sum(
        _between(before, after)
        for before, after in pairwise(by_attempt(events))
        if last(after, RunStarted) is None and last(after, AttemptStarted) is not None
    )


def _between(before: Sequence[Event], after: Sequence[Event]) -> float:
    died, trains = _death(before), _first_step(after)
    seconds = trains - died
    return seconds if math.isfinite(seconds) and seconds > 0 else 0.0  # the clock may have been set back


def _death(attempt: Sequence[Event]) -> float:
    """Return the Unix time at which the script ended: its end is recorded only after its diagnosis."""
    started = next((event.time for event in attempt if isinstance(event.fact, AttemptStarted)), math.nan)
    ended = last(attempt, AttemptEnded)
    return math.nan if ended is None or ended.returncode is None else started + ended.seconds


def _first_step(attempt: Sequence[Event]) -> float:
    """Return the Unix time at which the training went on, or began anew; NaN if it did neither."""
    resumed = (event.time for event in attempt if _goes_on(event.fact))
    began = (event.time for event in attempt if isinstance(event.fact, (FitStarted, LoopSeen)))
    return next(resumed, next(began, math.nan))


def _goes_on(fact: object) -> bool:
    return isinstance(fact, Resumed) and fact.kind != _FINISHED
