"""Decides when the next checkpoint is due: after the user's number of steps or seconds, or when it pays off.

A checkpoint pays off if it costs less time than the work that would otherwise be lost to a fault. The best interval
between two checkpoints is taken from J. W. Young, "A first order approximation to the optimum checkpoint interval",
Communications of the ACM 17(9), 1974, with the higher-order estimate of J. T. Daly, "A higher order estimate of the
optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22(3), 2006. Both inputs are
measured: how long a checkpoint stalls training, and how often this run is interrupted.

A run that has just started has little to lose and few measurements. Its first checkpoint's stall includes one-time
work: imports, tracing. The second checkpoint therefore comes early, and its stall is used. It is taken right away if
all checkpoints together stay within their share of the time, and within the first half minute otherwise. Time spent
beyond that share is made up for later, but no single wait for this exceeds the best interval or the duration of the
run. Until the best interval is reached, the next checkpoint comes after a fraction of the time trained so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import median

SHARE = 0.02
"""The share of the time for which checkpoints may stall training by default."""
WRITING_SHARE = 0.25
"""The share of the time for which the background writer may be busy."""
SHORTEST_SECONDS = 5.0
YOUNG_SECONDS = 30.0
"""A run is assumed to train for at least this many seconds, so that an early checkpoint can stay within its share."""
EARLY_SECONDS = 25.0
"""The longest wait, in seconds, for each of a run's first two checkpoints, even if they exceed their share."""
_MOST_OF_EARLY = 0.1
"""The largest share of the time trained so far that an early checkpoint may take."""
_PART_AT_RISK = 0.25
"""The largest fraction of training time that a fault may cost, if intervals that short are affordable."""
ASSUMED_SECONDS = 3600.0
"""A new run is assumed to have one fault in this many seconds, until observations outweigh the assumption."""


@dataclass(frozen=True)
class Cost:
    """The measured cost of checkpoints and faults in this run."""

    stall_seconds: float = 0.0
    """The time for which a checkpoint stalls training, in seconds."""
    write_seconds: float = 0.0
    """The time it then took to write the checkpoint in the background, in seconds."""
    between_faults: float = ASSUMED_SECONDS
    """The mean time between two faults, in seconds."""
    trained_seconds: float = inf
    """The time that the run had trained by the last checkpoint, in seconds."""
    spent_seconds: float = 0.0
    """The part of that time taken by all checkpoints, in seconds."""
    is_rough: bool = False
    """True if at most one checkpoint has been measured, since the first stall includes one-time work."""


@dataclass(frozen=True)
class CheckpointInterval:
    """The rule that decides when the checkpoints of one run are due."""

    steps: int | None = None
    seconds: float | None = None

    def due(self, steps: int, seconds: float, cost: Cost) -> bool:
        """True if a checkpoint is due this many steps and seconds after the last one."""
        if steps <= 0:
            return False
        if self.steps is not None:
            return steps >= self.steps
        return seconds >= self.seconds_between(cost)

    def seconds_between(self, cost: Cost) -> float:
        """Return the time, in seconds, between two checkpoints."""
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
            seconds: the run's training time.
            spent: the part of that time taken by checkpoints and end states.
            expected: the time that this end state is expected to take.
        """
        return self.steps is not None or self.seconds is not None or spent + expected <= SHARE * seconds

    def describe(self, cost: Cost) -> str:
        """Describe the rule to the user."""
        if self.steps is not None:
            return f"every {self.steps} steps"
        if self.seconds is not None:
            return f"every {self.seconds:.0f} s"
        if cost.is_rough:
            return f"in {self.seconds_between(cost):.0f} s, taking at most {SHARE:.0%} of the time in the long run"
        return f"every {self.seconds_between(cost):.0f} s, at most {SHARE:.0%} of the time"


def typical(stalls: Sequence[float]) -> float:
    """Return the median of the measured stalls, in seconds, ignoring the first if there are others."""
    return median(stalls[1:] or stalls) if stalls else 0.0


def optimal_seconds(cost_seconds: float, between_faults: float) -> float:
    """Compute Daly's optimal training time, in seconds, between checkpoints that cost `cost_seconds` each."""
    if cost_seconds >= 2 * between_faults:
        return between_faults
    ratio = cost_seconds / (2 * between_faults)
    return sqrt(2 * cost_seconds * between_faults) * (1 + sqrt(ratio) / 3 + ratio / 9) - cost_seconds


def seconds_between_faults(faults: int, seconds: float) -> float:
    """Estimate the mean time, in seconds, between faults in a run that has trained for `seconds`.

    The observations are averaged with one assumed fault in ASSUMED_SECONDS, which applies to a run without faults.
    """
    return (ASSUMED_SECONDS + seconds) / (1 + faults)
