"""When the next checkpoint is due: after a number of steps or seconds the user gave, or so that it costs little."""

from __future__ import annotations

from dataclasses import dataclass

SHARE = 0.02
"""Checkpoints may take this share of the training time when the user says nothing."""
SHORTEST_SECONDS = 5.0


@dataclass(frozen=True)
class Interval:
    """The rule for one run."""

    steps: int | None = None
    seconds: float | None = None

    def due(self, steps: int, seconds: float, last_cost_seconds: float) -> bool:
        """Whether a checkpoint is due, this many steps and seconds after the last one, which took that long."""
        if steps <= 0:
            return False
        if self.steps is not None:
            return steps >= self.steps
        return seconds >= self.seconds_between(last_cost_seconds)

    def seconds_between(self, last_cost_seconds: float) -> float:
        """The time between two checkpoints when the last one took this long."""
        if self.seconds is not None:
            return self.seconds
        return max(SHORTEST_SECONDS, last_cost_seconds / SHARE)

    def describe(self, last_cost_seconds: float) -> str:
        """The rule in words."""
        if self.steps is not None:
            return f"every {self.steps} steps"
        seconds = self.seconds_between(last_cost_seconds)
        bound = "" if self.seconds is not None else f", at most {SHARE:.0%} of the time"
        return f"every {seconds:.0f} s{bound}"
