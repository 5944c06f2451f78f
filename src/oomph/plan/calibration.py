"""Corrects the simulation by real steps of two small batches.

What the simulation leaves out is partly the same at each batch size (scratch memory), partly grows with it (slack of
the allocator). Two small batches tell little about the growth, so that it counts by half in what is expected, and as a
whole in the high end only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.plan.estimate import Interval

_MOST_GROWTH = 0.35
"""The surplus grows at most by this part of the predicted growth."""
LOWER, UPPER = 0.90, 1.08
"""The interval around what is expected after the correction; fitted on the development models of
docs/measurements.md."""


@dataclass(frozen=True)
class Measured:
    """Real steps of one batch size beside their prediction, in bytes."""

    batch: int
    peaks: Sequence[int]
    predicted: int

    @property
    def usual(self) -> float:
        """What the steps usually take beyond the prediction."""
        return statistics.median(self.peaks) - self.predicted

    @property
    def most(self) -> float:
        """What one of them took beyond the prediction at most."""
        return max(self.peaks) - self.predicted


@dataclass(frozen=True)
class Correction:
    """What to add to a prediction: the surplus at one batch size, and its growth for each further sample; in bytes."""

    batch: int
    usual: float
    most: float
    growth: float

    def of(self, peak: Interval, batch: int, held: int) -> Interval:
        """The corrected interval; `held` bytes are in use in any case."""
        further = (batch - self.batch) * self.growth
        expected = max(held, round(peak.expected + self.usual + further / 2))
        low = max(held, round(LOWER * (expected - max(0.0, further) / 2)))
        high = UPPER * (peak.expected + self.most + max(further, further / 2))
        return Interval(min(low, expected), expected, max(expected, round(high)))


def correction(measured: Sequence[Measured]) -> Correction | None:
    """What the real steps say; None without any."""
    if not measured:
        return None
    small, large = measured[0], measured[-1]
    samples = large.batch - small.batch
    if not samples:
        return Correction(large.batch, large.usual, large.most, 0.0)
    bound = _MOST_GROWTH * max(0, large.predicted - small.predicted) / samples
    growth = max(-bound, min(bound, (large.usual - small.usual) / samples))
    return Correction(large.batch, large.usual, large.most, growth)
