"""Corrects the simulation by real steps of two small batches.

What the simulation leaves out is partly the same at each batch size (scratch memory), partly grows with it (slack of
the allocator). Two small batches tell little about the growth, so that it counts by half in what is expected, and as a
whole in the high end only.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from oomph.memory.estimate import Interval

_MOST_GROWTH = 0.35
"""The surplus grows at most by this part of the predicted growth."""
_LEAST_RISE = 0.15
"""A prediction that rises less between the two batches tells nothing of how the surplus grows."""
LOWER, UPPER = 0.89, 1.22
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
    """What to add to a prediction, in bytes, from real steps of a small and a larger batch, which may be the same."""

    small: Measured
    large: Measured

    def of(self, peak: Interval, batch: int, held: int) -> Interval:
        """The corrected interval; `held` bytes are in use in any case."""
        usual, most = self._surplus(batch)
        further = self._share() * (peak.expected - self.large.predicted) if batch > self.large.batch else 0.0
        expected = max(held, round(peak.expected + usual + further / 2))
        low = max(held, round(LOWER * (expected - max(0.0, further) / 2)))
        high = UPPER * (peak.expected + most + max(further, further / 2))
        return Interval(min(low, expected), expected, max(expected, round(high)))

    def _surplus(self, batch: int) -> tuple[float, float]:
        """What the steps of a batch between the two take beyond the prediction, usually and at most."""
        small, large = self.small, self.large
        if batch >= large.batch:
            return large.usual, large.most
        if batch <= small.batch:
            return small.usual, small.most
        part = (batch - small.batch) / (large.batch - small.batch)
        between = [one + part * (other - one) for one, other in ((small.usual, large.usual), (small.most, large.most))]
        return between[0], between[1]

    def _share(self) -> float:
        """How much the surplus grows for each byte by which the prediction grows; 0 where that is lost in chance."""
        rise = self.large.predicted - self.small.predicted
        if rise < _LEAST_RISE * self.large.predicted:
            return 0.0
        return max(-_MOST_GROWTH, min(_MOST_GROWTH, (self.large.usual - self.small.usual) / rise))


def correction(measured: Sequence[Measured]) -> Correction | None:
    """What the real steps say; None without any."""
    return Correction(measured[0], measured[-1]) if measured else None
