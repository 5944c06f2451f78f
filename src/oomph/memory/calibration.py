"""Corrects the simulation by real steps at a few batch sizes.

What the simulation leaves out is partly the same at each batch size (slack of what the training holds), partly grows
with it (slack of the allocator, chance in what runs beside what). Between the sizes that ran, the surplus is between
theirs. Beyond the largest of them it grows with the prediction; by how much is known only roughly, so that the interval
widens with each doubling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.memory.estimate import Interval

LOWER, UPPER = 0.93, 1.2
"""The interval around what is expected at a size that ran: chance moves the peaks of a step between processes."""
_WIDER = 0.02
"""How much wider it is for each doubling beyond the largest size that ran. All three are fitted on the development
models of docs/measurements.md."""
_MOST_DOUBLINGS = 4
_GROWTH = 0.5
"""By which part of the predicted growth the surplus grows beyond the largest size that ran."""


@dataclass(frozen=True)
class Measured:
    """Real steps of one batch size beside their prediction, in bytes."""

    batch: int
    peaks: Sequence[int]
    predicted: int

    @property
    def surplus(self) -> float:
        """What the largest of the steps took beyond the prediction: a training needs that."""
        return max(self.peaks) - self.predicted


@dataclass(frozen=True)
class Correction:
    """What to add to a prediction, from real steps at rising batch sizes."""

    measured: Sequence[Measured]

    def of(self, peak: Interval, batch: int, held: int) -> Interval:
        """The corrected interval; `held` bytes are in use in any case."""
        expected = max(held, round(peak.expected + self._surplus(peak.expected, batch, held)))
        wider = 1 + _WIDER * self._doublings(batch)
        low = max(held, round(LOWER * expected / wider))
        return Interval(min(low, expected), expected, round(UPPER * expected * wider))

    def _surplus(self, predicted: int, batch: int, held: int) -> float:
        first, last = self.measured[0], self.measured[-1]
        if batch <= first.batch:
            return first.surplus
        for small, large in zip(self.measured, self.measured[1:], strict=False):
            if batch <= large.batch:
                part = (batch - small.batch) / (large.batch - small.batch)
                return small.surplus + part * (large.surplus - small.surplus)
        ratio = (predicted - held) / max(1, last.predicted - held)
        return last.surplus * (1 + _GROWTH * max(0.0, ratio - 1))

    def _doublings(self, batch: int) -> float:
        beyond = math.log2(max(1.0, batch / self.measured[-1].batch))
        return min(beyond, _MOST_DOUBLINGS)


def correction(measured: Sequence[Measured]) -> Correction | None:
    """What the real steps say; None without any."""
    return Correction(tuple(measured)) if measured else None
