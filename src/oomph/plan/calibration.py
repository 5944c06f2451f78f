"""Corrects the simulation by real steps of small batches, where both see the same kind of peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from oomph.plan.estimate import Interval


@dataclass(frozen=True)
class Measured:
    """A real step beside its prediction, in bytes."""

    batch: int
    peak: int
    predicted: int


@dataclass(frozen=True)
class Correction:
    """Adds what real steps took beyond the prediction: `fixed + per_sample * batch` bytes.

    What the simulation leaves out is partly the same at each batch size (scratch memory), partly grows with it (slack).
    """

    fixed: float
    per_sample: float

    def of(self, peak: Interval, batch: int, floor: int) -> Interval:
        """The corrected interval; `floor` bytes are in use in any case."""
        added = round(self.fixed + self.per_sample * batch)
        low, expected, high = (max(floor, part + added) for part in (peak.low, peak.expected, peak.high))
        return Interval(low, max(low, expected), max(expected, high))


def correction(measured: Sequence[Measured], held: int) -> Correction:
    """What the real steps say: the mean surplus, split in proportion to what grows with the batch.

    The surplus of the larger batch counts in proportion to the memory that the step itself takes there, so that a large
    batch is not corrected by a small one's fixed scratch memory.
    """
    if not measured:
        return Correction(0.0, 0.0)
    if len(measured) == 1 or measured[0].batch == measured[-1].batch:
        one = measured[-1]
        share = (one.peak - one.predicted) / max(1, one.predicted - held)
        return Correction(0.0, share * (one.predicted - held) / one.batch)
    small, large = measured[0], measured[-1]
    surplus = small.peak - small.predicted, large.peak - large.predicted
    per_sample = (surplus[1] - surplus[0]) / (large.batch - small.batch)
    bound = 0.25 * (large.predicted - held) / large.batch
    per_sample = max(-bound, min(bound, per_sample))
    return Correction(surplus[1] - per_sample * large.batch, per_sample)
