"""How many samples to take at once when a whole batch did not fit, and when to take more again. Pure.

Every micro-batch that fits is work done, so the search goes upwards, from a size that is nearly sure to fit: only
failures cost time (outside XLA ten seconds each, TensorFlow's own wait). Memory is taken to be linear in the size
beyond a constant: two sizes whose peaks are known give the largest that fits. Where nothing can be measured, sizes are
doubled.

Memory comes back when the script lets go of a tensor, or when another process on the same GPU ends. The first shows in
TensorFlow's own count, and a size that the new room holds can be computed. The second does not show: where others
held the rest when a size failed, a larger one is tried now and then, so seldom that a failed trial costs one percent of
the time, and more seldom after each that fails.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SHARE = 0.85
"""Share of the room that a need named by XLA may use."""
_MEASURED_SHARE = 0.75
"""Share of the size that two measured micro-batches predict to fit just so: many tensors leave many gaps."""
_LASTING_SHARE = 0.8
"""Share of the room that the size to go on with may use: a tighter fit runs out of memory again a few steps later."""
_START_DIVISOR = 128
_LEAP = 8
"""A prediction is trusted that many times further than it was measured: memory may grow faster than the size."""
_WORTH_IT = 1.25
"""Growing by less, of a size or of the room, is not worth another shape: its functions are traced or compiled anew."""
_BELOW_FAILED, _BELOW_FAILED_IN_GAPS = 0.8, 0.5
"""The largest piece to try below one that failed; and below one that was smaller than what the room seemed to hold:
there the memory is in pieces, or a kernel asks for much at once, and neither shows in what has been measured."""
_USABLE = 0.7
"""Share of the room to go by from then on."""
_APART = 1.5
"""Sizes closer than this are one point: allocators round, and between neighbours only the rounding would show."""


@dataclass(frozen=True)
class MicroBatchSearch:
    """What is known of the memory that micro-batches take, in samples and bytes. Its methods have no effects."""

    failed: int | None = None
    """The smallest size that ran out of memory. None as large is tried again."""
    size: int | None = None
    """The largest piece to take next; None: no limit is known, or not even one sample fits."""
    points: tuple[tuple[int, int | None], ...] = ()
    """(size, bytes taken or None) of the two last that fitted and lie well apart."""
    gaps: bool = False
    """Whether the free memory is in pieces too small: the step has a loop in it, which keeps many small tensors, or a
    piece has failed that should have fitted, by what others had taken."""

    @property
    def hopeless(self) -> bool:
        """Whether one sample alone ran out of memory."""
        return self.failed is not None and self.failed <= 1

    def micro_batch(self, batch: int) -> int:
        """The size of the equal parts, the last one excepted, in which to take a batch of that many samples."""
        if self.size is None or self.size >= batch:
            return batch
        return math.ceil(batch / math.ceil(batch / self.size))

    def after_failure(
        self, size: int, room_bytes: int | None = None, need_bytes: int | None = None
    ) -> MicroBatchSearch:
        """Knowledge after `size` ran out of memory.

        Args:
            size: of the piece that failed.
            room_bytes: what a piece may take, where that is known.
            need_bytes: what this piece would have taken, where the error says so (XLA's does).
        """
        failed = size if self.failed is None else min(size, self.failed)
        points = tuple(point for point in self.points if point[0] < failed)
        gaps = self.gaps or any(taken is not None for _, taken in points)
        after = replace(self, failed=failed, points=points, size=None, gaps=gaps)
        if after.hopeless:
            return after
        if need_bytes and room_bytes is not None:
            aim = SHARE * failed * max(0, room_bytes) / need_bytes
        elif points:
            predicted = after._predicted(room_bytes)
            # What was expected to fit did not: half of it is at least half of the largest that fits.
            aim = failed // 2 if predicted is None else min(predicted, failed // 2)
        else:
            aim = after._start()
        return replace(after, size=after._within(aim))

    def after_fit(self, size: int, taken_bytes: int | None = None, room_bytes: int | None = None) -> MicroBatchSearch:
        """Knowledge after a piece of `size` samples fitted, having taken that much of that much room."""
        if self.size is None or self.failed is None:
            return self
        others = tuple(point for point in self.points if not size / _APART < point[0] < size * _APART)
        after = replace(self, points=(*others, (size, taken_bytes or None))[-2:])
        predicted = after._predicted(room_bytes)
        if predicted is None or predicted >= self.failed:  # nothing to go by, or proved wrong by what failed
            larger = after._within(min(2 * size, self.failed // 2))
            return replace(after, size=max(self.size, larger))
        larger = after._within(min(predicted, _LEAP * size))
        return replace(after, size=larger if larger >= _WORTH_IT * self.size else self.size)

    def lasting(self, room_bytes: int | None) -> MicroBatchSearch:
        """Knowledge to go on with for many batches: a piece that fills that much room so tightly is made smaller."""
        measured = [(size, taken) for size, taken in self.points if taken is not None]
        if self.size is None or room_bytes is None or len(measured) < 2:
            return self
        (small, small_taken), (large, large_taken) = measured
        slope = (large_taken - small_taken) / (large - small)
        if slope <= 0:
            return self
        most = int(large + (_LASTING_SHARE * self._usable(room_bytes) - large_taken) / slope)
        return self if self.size <= most else replace(self, size=max(most, self.size // 2, 1))

    def _predicted(self, room_bytes: int | None) -> float | None:
        """The size that would take what may be used of the room."""
        measured = [(size, taken) for size, taken in self.points if taken is not None]
        if room_bytes is None or not measured:
            return None
        room_bytes = self._usable(room_bytes)
        small, small_taken = measured[0]
        if len(measured) == 1:
            bound = (
                _MEASURED_SHARE * small * room_bytes / small_taken
            )  # too low where much of what it takes is constant
            return max(bound, 2 * small) if small <= self._start() else bound
        large, large_taken = measured[1]
        slope = (large_taken - small_taken) / (large - small)
        return _MEASURED_SHARE * (large + (room_bytes - large_taken) / slope) if slope > 0 else None

    def _usable(self, room_bytes: int) -> int:
        """The room, or what of it there seems to be in pieces large enough."""
        return int(_USABLE * room_bytes) if self.gaps else room_bytes

    def _start(self) -> int:
        assert self.failed is not None
        return max(1, self.failed // _START_DIVISOR)

    def _within(self, aim: float) -> int:
        assert self.failed is not None
        below = _BELOW_FAILED_IN_GAPS if self.gaps else _BELOW_FAILED
        return max(1, min(int(aim), int(below * self.failed)))


_PATIENCE = 100
"""A trial waits that many times as long as a failure costs."""
_RECENTLY = 60.0
"""Seconds after a failure in which nothing larger is tried, whatever the memory says."""


@dataclass(frozen=True)
class Regrowth:
    """What is known about the size in use, in samples, bytes and seconds of a monotonic clock."""

    size: int
    """The piece that fits."""
    room_bytes: int | None
    """What a piece may take, as it was when the size was settled."""
    failed_at: float
    """When a larger piece ran out of memory last."""
    cost: float
    """Seconds that this took."""
    others_hold: bool = False
    """Whether memory below the limit of TensorFlow was missing then: others held it."""
    setbacks: int = 0
    """Trials of a larger size that have failed."""

    def larger(self, now: float, room_bytes: int | None) -> int | None:
        """The size to try now, or None to go on as it is."""
        waited = now - self.failed_at
        if waited < _RECENTLY * 2**self.setbacks:
            return None
        if self.room_bytes and room_bytes and room_bytes >= _WORTH_IT * self.room_bytes:
            return int(self.size * room_bytes / self.room_bytes)  # memory is linear beyond a constant: this fits
        if self.others_hold and waited >= _PATIENCE * self.cost * 2**self.setbacks:
            return 2 * self.size
        return None

    def after_failure(self, now: float, cost: float) -> Regrowth:
        """A trial has failed: the next one waits twice as long."""
        return replace(self, failed_at=now, cost=max(cost, self.cost), setbacks=self.setbacks + 1)
