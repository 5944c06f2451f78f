"""Chooses a micro-batch size after a full batch did not fit or after a crash, and when to increase it. Pure.

Every micro-batch that fits is useful work, so the search goes upwards from a size that almost certainly fits. Only
failures cost time: without XLA, ten seconds each, which is how long TensorFlow itself waits. Memory is assumed to grow
linearly with the size, plus a constant, so two sizes with known peaks determine the largest one that fits. If nothing
can be measured, the size is doubled each time.

Memory becomes free when the script releases a tensor, or when another process on the same GPU exits. TensorFlow tracks
the former, so the size that fits into the additional memory can be computed. It does not see the latter. If other
processes held memory when a size failed, a larger size is therefore tried now and then, but so rarely that a failed
trial costs one percent of the time, and even more rarely after each failure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

SHARE = 0.85
"""The share of the available memory to use if XLA has reported how much is needed."""
_MEASURED_SHARE = 0.75
"""The share to use of a size that is predicted to fit exactly, because many tensors leave many gaps."""
_LASTING_SHARE = 0.8
"""The share of the available memory that a lasting size may use. With more, it runs out again a few steps later."""
_START_DIVISOR = 128
_NEW_PROCESS_DIVISOR = 32
"""The number by which to divide the batch in a new process after nothing fitted in the old one. The process after that
starts with a single sample."""
_LEAP = 8
"""The largest multiple of a measured size for which predictions are trusted. Memory may grow faster than the size."""
_WORTH_IT = 1.25
"""The smallest factor by which the size or the available memory must grow to justify tracing or compiling a new
shape."""
_BELOW_FAILED, _BELOW_FAILED_IN_GAPS = 0.8, 0.5
"""The largest fraction of a failed size to try next. The second applies when that size should have fitted: memory is
then fragmented, or a kernel allocates one large block, and the measurements reveal neither."""
_USABLE = 0.7
"""The usable share of the available memory if it is fragmented."""
_APART = 1.5
"""The minimum ratio between two sizes that count as distinct, since allocators round."""


@dataclass(frozen=True)
class MicroBatchSearch:
    """The known memory use of micro-batches, in samples and bytes. Immutable."""

    failed: int | None = None
    """The smallest size that ran out of memory. Only smaller sizes are tried from then on."""
    size: int | None = None
    """The largest micro-batch to try next, or None if no limit is known or not even one sample fits."""
    points: tuple[tuple[int, int | None], ...] = ()
    """The last two sizes that fitted and are well apart, each with the bytes that it used, or None if unknown."""
    gaps: bool = False
    """True if the free memory is fragmented: the step has a loop, which keeps many small tensors, or a size failed that
    should have fitted according to the measurements."""

    @property
    def hopeless(self) -> bool:
        """True if even a single sample ran out of memory."""
        return self.failed is not None and self.failed <= 1

    def micro_batch(self, batch: int) -> int:
        """Return the micro-batch size for a batch of `batch` samples. All micro-batches except the last are equal."""
        if self.size is None or self.size >= batch:
            return batch
        return math.ceil(batch / math.ceil(batch / self.size))

    def after_failure(
        self, size: int, room_bytes: int | None = None, need_bytes: int | None = None
    ) -> MicroBatchSearch:
        """Return the state of the search after `size` ran out of memory.

        Args:
            size: the size of the micro-batch that failed.
            room_bytes: the memory available to a micro-batch, if known.
            need_bytes: the memory that it needed, if the error reports that, as XLA's does.
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
            # This size should have fitted, but failed. Half of it is at least half of the largest size that fits.
            aim = failed // 2 if predicted is None else min(predicted, failed // 2)
        else:
            aim = after._start()
        return replace(after, size=after._within(aim))

    def after_fit(self, size: int, taken_bytes: int | None = None, room_bytes: int | None = None) -> MicroBatchSearch:
        """Return the state of the search after `size` samples fitted into `taken_bytes` of `room_bytes`."""
        if self.size is None or self.failed is None:
            return self
        others = tuple(point for point in self.points if not size / _APART < point[0] < size * _APART)
        after = replace(self, points=(*others, (size, taken_bytes or None))[-2:])
        predicted = after._predicted(room_bytes)
        if predicted is None or predicted >= self.failed:  # unknown, or contradicted by the size that failed
            larger = after._within(min(2 * size, self.failed // 2))
            return replace(after, size=max(self.size, larger))
        larger = after._within(min(predicted, _LEAP * size))
        return replace(after, size=larger if larger >= _WORTH_IT * self.size else self.size)

    def lasting(self, room_bytes: int | None) -> MicroBatchSearch:
        """Return the state of the search for use over many batches, with a smaller size if this one is too tight."""
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
        """Predict the size that fills the usable memory."""
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
        """Return how many bytes of the available memory are usable. Fragmentation reduces this."""
        return int(_USABLE * room_bytes) if self.gaps else room_bytes

    def _start(self) -> int:
        assert self.failed is not None
        return max(1, self.failed // _START_DIVISOR)

    def _within(self, aim: float) -> int:
        assert self.failed is not None
        below = _BELOW_FAILED_IN_GAPS if self.gaps else _BELOW_FAILED
        return max(1, min(int(aim), int(below * self.failed)))


def size_of_new_process(batch: int, began_with: int | None) -> int | None:
    """Return the micro-batch size for a new process if nothing fitted in this one, which began with `began_with`.

    A `began_with` of None means full batches. Returns None if a new process would not help.
    """
    if batch <= 1:
        return None
    if began_with is None:
        return max(1, batch // _NEW_PROCESS_DIVISOR)
    return 1 if began_with > 1 else None


def size_after_crash(samples: int | None) -> int | None:
    """Return the micro-batch size after a crash in a step with `samples` samples, or None if that is 1 or unknown."""
    return samples // 2 if samples is not None and samples > 1 else None


_PATIENCE = 100
"""The time to wait before a trial, as a multiple of what a failure costs."""
_RECENTLY = 60.0
"""The time after a failure, in seconds, during which no larger size is tried, even if there is free memory."""


@dataclass(frozen=True)
class Regrowth:
    """The size in use and its last failure, in samples, bytes and seconds of a monotonic clock."""

    size: int
    """The micro-batch size that fits."""
    room_bytes: int | None
    """The memory available to a micro-batch when the size was settled, in bytes, or None if unknown."""
    failed_at: float
    """The monotonic time when a larger micro-batch last ran out of memory."""
    cost: float
    """The time that the last failure took, in seconds."""
    others_hold: bool = False
    """True if other processes held memory within TensorFlow's limit at that time."""
    setbacks: int = 0
    """The number of failed trials of a larger size."""

    def larger(self, now: float, room_bytes: int | None) -> int | None:
        """Return the size to try now, or None to keep the current one."""
        waited = now - self.failed_at
        if waited < _RECENTLY * 2**self.setbacks:
            return None
        if self.room_bytes and room_bytes and room_bytes >= _WORTH_IT * self.room_bytes:
            return int(self.size * room_bytes / self.room_bytes)  # memory grows linearly, plus a constant, so this fits
        if self.others_hold and waited >= _PATIENCE * self.cost * 2**self.setbacks:
            return 2 * self.size
        return None

    def after_failure(self, now: float, cost: float) -> Regrowth:
        """Return the state after a failed trial. The wait before the next one is twice as long."""
        return replace(self, failed_at=now, cost=max(cost, self.cost), setbacks=self.setbacks + 1)
