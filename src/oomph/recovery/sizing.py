"""Sizing: which micro-batch to try next, as a pure function of what was measured.

Outside XLA every out-of-memory error costs ten seconds (TensorFlow waits for memory to come back: `kMaxMillisToWait`
in bfc_allocator.cc), so sizes are predicted, not halved. After the first failure two small micro-batches, which are
part of the step and not wasted, are measured; memory is linear in the batch size beyond a constant, so two
points give the largest size that fits. XLA says in its error how much it needed: one point, and no probe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

USABLE = 0.85
"""Share of the limit a prediction may use: the rest is for fragmentation and for what runs beside the step."""
_PROBE_DIVISOR = 32
_RETREAT = 0.6


@dataclass(frozen=True)
class Sizing:
    """What is known about the memory need of one step, in samples and bytes. Decisions are methods without effects."""

    limit_bytes: int | None = None
    """What the device's allocator may use; None: not known."""
    base_bytes: int = 0
    """In use before the step: weights, slots, accumulators, the input pipeline."""
    failed: int | None = None
    """The smallest size that ran out of memory."""
    failed_need_bytes: int | None = None
    """What that size asked for in one piece, when the error says so (XLA does)."""
    measured: tuple[tuple[int, int], ...] = ()
    """(size, peak bytes) of micro-batches that fitted, at most the two that matter, ascending."""
    chosen: int | None = None
    """The size to go on with; None: still to be found."""
    can_measure: bool = True
    """Whether the allocator tells its peak."""

    def after_failure(self, size: int, need_bytes: int | None = None) -> Sizing:
        """Knowledge after `size` ran out of memory."""
        failed = size if self.failed is None else min(size, self.failed)
        return replace(self, failed=failed, failed_need_bytes=need_bytes, chosen=None)

    def after_measuring(self, size: int, peak_bytes: int) -> Sizing:
        """Knowledge after `size` fitted with this peak."""
        points = dict(self.measured) | {size: peak_bytes}
        return replace(self, measured=tuple(sorted(points.items())[-2:]))

    def settled(self, batch: int) -> Sizing:
        """The same knowledge with `chosen` decided for batches of `batch` samples."""
        return replace(self, chosen=self.next_size(batch))

    @property
    def wants_measurement(self) -> bool:
        """Whether the next micro-batch is a probe whose peak is to be measured."""
        if self.chosen is not None or self.failed is None or not self.can_measure or self.failed_need_bytes is not None:
            return False
        return len(self.measured) < 2 and self._probe() not in dict(self.measured)

    def next_size(self, batch: int) -> int | None:
        """The micro-batch to try for a batch of `batch` samples; None when even one sample did not fit."""
        if self.chosen is not None:
            return min(self.chosen, batch)
        if self.failed is None:
            return batch
        if self.failed <= 1:
            return None
        if self.wants_measurement:
            return min(self._probe(), batch)
        return _even_share(batch, self._predicted())

    def _probe(self) -> int:
        assert self.failed is not None
        if self.measured:
            return max(1, min(2 * self.measured[-1][0], self.failed - 1))
        return max(1, self.failed // _PROBE_DIVISOR)

    def _predicted(self) -> int:
        assert self.failed is not None
        ceiling = self.failed - 1
        predicted = self._from_two_points() or self._from_one_need()
        if predicted is None:
            return max(1, self.failed // 2)
        largest_measured = self.measured[-1][0] if self.measured else 1
        if predicted >= self.failed:  # the prediction has been proved wrong: step back from what failed
            predicted = int(self.failed * _RETREAT)
        return max(1, min(ceiling, max(predicted, min(largest_measured, ceiling))))

    def _from_two_points(self) -> int | None:
        if self.limit_bytes is None or len(self.measured) < 2:
            return None
        (small, small_peak), (large, large_peak) = self.measured
        slope = (large_peak - small_peak) / (large - small)
        if slope <= 0:  # rounding of the allocator hides the growth: charge everything above the base to the samples
            slope = max(1.0, (large_peak - self.base_bytes) / large)
        return max(1, int(large + (USABLE * self.limit_bytes - large_peak) / slope))

    def _from_one_need(self) -> int | None:
        if self.limit_bytes is None or not self.failed_need_bytes or self.failed is None:
            return None
        free = USABLE * self.limit_bytes - self.base_bytes
        return max(1, int(self.failed * min(1.0, max(0.0, free) / self.failed_need_bytes)))


def _even_share(batch: int, largest: int) -> int:
    """The size that splits `batch` into the fewest parts of at most `largest`, all but the last equal."""
    return math.ceil(batch / math.ceil(batch / max(1, min(largest, batch))))
