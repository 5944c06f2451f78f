"""Chooses the size of a micro-batch after a full batch did not fit or after a crash, and when to increase it. Pure.

Every micro-batch that fits is work done, so the search goes upwards from a size that almost certainly fits. Only
failures cost time: outside XLA ten seconds each, TensorFlow's own wait. Memory is assumed to be linear in the size
plus a constant: two sizes with known peaks give the largest that fits. If nothing can be measured, sizes double.

Memory becomes free when the script releases a tensor, or when another process on the same GPU ends. TensorFlow counts
the former, so the size that fits the new room can be computed. It does not see the latter: if other processes held
memory when a size failed, a larger size is tried now and then, so rarely that a failed trial costs one percent of the
time, and more rarely after each failure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SHARE = 0.85
"""The share of the room that may be filled if XLA has reported how much memory is needed."""
_MEASURED_SHARE = 0.75
"""The share to use of the size predicted to fit exactly: many tensors leave many gaps."""
_LASTING_SHARE = 0.8
"""The share of the room that a lasting size may use: a tighter fit runs out of memory again a few steps later."""
_START_DIVISOR = 128
_NEW_PROCESS_DIVISOR = 32
"""The divisor of the batch for a new process after nothing fit in the old one. The process after that starts with one
sample."""
_LEAP = 8
"""The multiple of the measured size up to which a prediction is trusted: memory may grow faster than the size."""
_WORTH_IT = 1.25
"""The smallest factor by which the size or the room must grow to justify tracing or compiling another shape."""
_BELOW_FAILED, _BELOW_FAILED_IN_GAPS = 0.8, 0.5
"""The largest fraction of a failed size to try next. The second applies when that size should have fitted: memory is
then fragmented, or a kernel allocates one large block, and the measurements reveal neither."""
_USABLE = 0.7
"""The share of the room that is usable when the free memory is in pieces."""
_APART = 1.5
"""The minimum factor between two sizes that count as distinct, since allocators round."""


@dataclass(frozen=True)
class MicroBatchSearch:
    """The known memory use of micro-batches, in samples and bytes. Immutable."""

    failed: int | None = None
    """The smallest size that ran out of memory. No size as large or larger is tried again."""
    size: int | None = None
    """The largest micro-batch to try next; None if no limit is known, or if not even one sample fits."""
    points: tuple[tuple[int, int | None], ...] = ()
    """(size, bytes taken or None) of the last two sizes that fitted and are well apart."""
    gaps: bool = False
    """True if the free memory is fragmented: the step has a loop, which keeps many small tensors, or a size failed
    that should fit according to measurements."""

    @property
    def hopeless(self) -> bool:
        """True if one sample alone ran out of memory."""
        return self.failed is not None and self.failed <= 1

    def micro_batch(self, batch: int) -> int:
        """Return the micro-batch size for a batch of `batch` samples. All micro-batches but the last are equal."""
        if self.size is None or self.size >= batch:
            return batch
        return math.ceil(batch / math.ceil(batch / self.size))

    def after_failure(
        self, size: int, room_bytes: int | None = None, need_bytes: int | None = None
    ) -> MicroBatchSearch:
        """Return the state of the search after `size` ran out of memory.

        Args:
            size: the micro-batch that failed.
            room_bytes: the memory that a micro-batch may take, if known.
            need_bytes: the memory that it needed, if the error reports it (XLA's does).
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
            # It should have fitted but failed: half of it is at least half of the largest that fits.
            aim = failed // 2 if predicted is None else min(predicted, failed // 2)
        else:
            aim = after._start()
        return replace(after, size=after._within(aim))

    def after_fit(self, size: int, taken_bytes: int | None = None, room_bytes: int | None = None) -> MicroBatchSearch:
        """Return the state of the search after `size` samples fitted in `taken_bytes` of `room_bytes`."""
        if self.size is None or self.failed is None:
            return self
        others = tuple(point for point in self.points if not size / _APART < point[0] < size * _APART)
        after = replace(self, points=(*others, (size, taken_bytes or None))[-2:])
        predicted = after._predicted(room_bytes)
        if predicted is None or predicted >= self.failed:  # unknown, or refuted by the size that failed
            larger = after._within(min(2 * size, self.failed // 2))
            return replace(after, size=max(self.size, larger))
        larger = after._within(min(predicted, _LEAP * size))
        return replace(after, size=larger if larger >= _WORTH_IT * self.size else self.size)

    def lasting(self, room_bytes: int | None) -> MicroBatchSearch:
        """Return the state of the search for use over many batches: reduces a size that fills the room too tightly."""
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
        """Predict the size that fills the usable room."""
        measured = [(size, taken) for size, taken in self.points if taken is not None]
        if room_bytes is None or not measured:
            return None
        room_bytes = self._usable(room_bytes)
        small, small_taken = measured[0]
        if len(measured) == 1:
            bound = _MEASURED_SHARE * small * room_bytes / small_taken  # too low where much of the memory is constant
            return max(bound, 2 * small) if small <= self._start() else bound
        large, large_taken = measured[1]
        slope = (large_taken - small_taken) / (large - small)
        return _MEASURED_SHARE * (large + (room_bytes - large_taken) / slope) if slope > 0 else None

    def _usable(self, room_bytes: int) -> int:
        """Return the usable part of the room, in bytes: less if the free memory is in pieces."""
        return int(_USABLE * room_bytes) if self.gaps else room_bytes

    def _start(self) -> int:
        assert self.failed is not None
        return max(1, self.failed // _START_DIVISOR)

    def _within(self, aim: float) -> int:
        assert self.failed is not None
        below = _BELOW_FAILED_IN_GAPS if self.gaps else _BELOW_FAILED
        return max(1, min(int(aim), int(below * self.failed)))


def size_of_new_process(batch: int, began_with: int | None) -> int | None:
    """Return the micro-batch for a new process if nothing fit in this one, which began with `began_with`.

    A `began_with` of None stands for full batches. Returns None if a new process would not help.
    """
    if batch <= 1:
        return None
    if began_with is None:
        return max(1, batch // _NEW_PROCESS_DIVISOR)
    return 1 if began_with > 1 else None


def size_after_crash(samples: int | None) -> int | None:
    """Return the micro-batch after a process died in a step of this many samples; None if unknown, or one."""
    return samples // 2 if samples is not None and samples > 1 else None


_PATIENCE = 100
"""The wait before a trial, in multiples of the cost of a failure."""
_RECENTLY = 60.0
"""The time, in seconds, after a failure during which nothing larger is tried, even if memory is free."""


@dataclass(frozen=True)
class Regrowth:
    """The size in use and its last failure, in samples, bytes and seconds of a monotonic clock."""

    size: int
    """The micro-batch that fits."""
    room_bytes: int | None
    """The memory, in bytes, that a micro-batch could take when the size was settled; None if unknown."""
    failed_at: float
    """The monotonic time when a larger micro-batch last ran out of memory."""
    cost: float
    """The duration of the last failure in seconds."""
    others_hold: bool = False
    """True if other processes then held memory below TensorFlow's limit."""
    setbacks: int = 0
    """The number of failed trials of a larger size."""

    def larger(self, now: float, room_bytes: int | None) -> int | None:
        """Return the size to try now; None to keep the current size."""
        waited = now - self.failed_at
        if waited < _RECENTLY * 2**self.setbacks:
            return None
        if self.room_bytes and room_bytes and room_bytes >= _WORTH_IT * self.room_bytes:
            return int(self.size * room_bytes / self.room_bytes)  # memory is linear plus a constant: this fits
        if self.others_hold and waited >= _PATIENCE * self.cost * 2**self.setbacks:
            return 2 * self.size
        return None

    def after_failure(self, now: float, cost: float) -> Regrowth:
        """Return the state after a failed trial: the next one waits twice as long."""
        return replace(self, failed_at=now, cost=max(cost, self.cost), setbacks=self.setbacks + 1)
