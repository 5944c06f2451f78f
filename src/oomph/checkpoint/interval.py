"""Decides when the next checkpoint is due: after the user's number of steps or seconds, or when it pays.

A checkpoint pays when it costs less time than the work that a fault would lose without it. The best interval between
two is that of J. W. Young, "A first order approximation to the optimum checkpoint interval", Communications of the ACM
17(9), 1974, to the higher order of J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart
dumps", Future Generation Computer Systems 22(3), 2006. Both inputs are measured: how long a checkpoint stalls the
training, and how often this run is interrupted.

A run that has just begun has little to lose and few measurements. Its first checkpoint's stall includes one-time work:
imports, tracing. So the second comes early, and its stall counts: at once if all checkpoints together stay within
their share of the time, otherwise within the first half minute. Excess over the share is made up for later, but no
single wait for that exceeds the best interval, or the duration of the run. Until the best interval is reached, the
next one comes after a part of the time trained so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median

SHARE = 0.02
"""The default share of the time for which checkpoints may stall the training."""
WRITING_SHARE = 0.25
"""The background writer may be busy for this share of the time."""
SHORTEST_SECONDS = 5.0
YOUNG_SECONDS = 30.0
"""A run is assumed to train at least this long, which may allow checkpoints early within their share."""
EARLY_SECONDS = 25.0
"""The first two checkpoints of a run wait no longer than this, even if they exceed their share of a short run."""
_MOST_OF_EARLY = 0.1
"""No early checkpoint may take more than this share of the time before."""
_PART_AT_RISK = 0.25
"""A fault loses at most this part of the time trained, if such intervals are affordable."""
ASSUMED_SECONDS = 3600.0
"""Initially, one fault in this time is assumed; observations soon outweigh it."""


@dataclass(frozen=True)
class Cost:
    """The measured cost of checkpoints and faults in this run."""

    stall_seconds: float = 0.0
    """The time for which a checkpoint stalls the training."""
    write_seconds: float = 0.0
    """The time it was then written in the background."""
    between_faults: float = ASSUMED_SECONDS
    """Mean time between two faults, in seconds."""
    trained_seconds: float = inf
    """The time the run had trained at the last checkpoint."""
    spent_seconds: float = 0.0
    """The part of that time taken by all checkpoints."""
    is_rough: bool = False
    """True if at most one checkpoint has been measured, whose stall includes one-time work."""


@dataclass(frozen=True)
class CheckpointInterval:
    """The rule for one run."""

    steps: int | None = None
    seconds: float | None = None

    def due(self, steps: int, seconds: float, cost: Cost) -> bool:
        """True if a checkpoint is due, this many steps and seconds after the last one."""
        if steps <= 0:
            return False
        if self.steps is not None:
            return steps >= self.steps
        return seconds >= self.seconds_between(cost)

    def seconds_between(self, cost: Cost) -> float:
        """The time between two checkpoints."""
        if self.seconds is not None:
            return self.seconds
        shortest = max(SHORTEST_SECONDS, cost.write_seconds / WRITING_SHARE)
        after_another = cost.spent_seconds + cost.stall_seconds
        if cost.is_rough and after_another <= SHARE * max(YOUNG_SECONDS, cost.trained_seconds):
            return shortest
        best = optimal_seconds(cost.stall_seconds, cost.between_faults)
        saving = min(after_another / SHARE - cost.trained_seconds, max(best, cost.trained_seconds))
        bound = max(shortest, cost.stall_seconds / SHARE, saving)
        between = max(bound, min(best, cost.trained_seconds * _PART_AT_RISK))
        early = max(shortest, EARLY_SECONDS, cost.stall_seconds / _MOST_OF_EARLY)
        return min(between, early) if cost.is_rough else between

    def end_state_is_due(self, seconds: float, spent: float, expected: float) -> bool:
        """True if the end state of a fit should be kept.

        Args:
            seconds: training time of the run.
            spent: seconds of it taken by checkpoints and end states.
            expected: seconds that this end state will take.
        """
        return self.steps is not None or self.seconds is not None or spent + expected <= SHARE * seconds

    def describe(self, cost: Cost) -> str:
        """The rule in words."""
        if self.steps is not None:
            return f"every {self.steps} steps"
        if self.seconds is not None:
            return f"every {self.seconds:.0f} s"
        if cost.is_rough:
            return f"in {self.seconds_between(cost):.0f} s, in the long run at most {SHARE:.0%} of the time"
        return f"every {self.seconds_between(cost):.0f} s, at most {SHARE:.0%} of the time"


def typical(stalls: Sequence[float]) -> float:
    """The median stall of the measured checkpoints, without the first if there are others."""
    return median(stalls[1:] or stalls) if stalls else 0.0


def optimal_seconds(cost_seconds: float, between_faults: float) -> float:
    """Daly's optimum: seconds to train between checkpoints that cost `cost_seconds` each."""
    if cost_seconds >= 2 * between_faults:
        return between_faults
    ratio = cost_seconds / (2 * between_faults)
    return sqrt(2 * cost_seconds * between_faults) * (1 + sqrt(ratio) / 3 + ratio / 9) - cost_seconds


def seconds_between_faults(faults: int, seconds: float) -> float:
    """The mean time between the faults of a run that has trained for `seconds`.

    Averages the observations with one assumed fault in ASSUMED_SECONDS, the starting point of a run without faults.
    """
    return (ASSUMED_SECONDS + seconds) / (1 + faults)
