"""The order of the operations of a step, and their workers.

Source: tensorflow/core/common_runtime/executor.cc, `ScheduleReady`: of the operations that have become ready, the cheap
ones run next on the same thread, then the last of the others; the rest go to the thread pool. Eigen's
NonBlockingThreadPool: a thread takes its newest task first, and an idle thread steals the oldest task of another. On a
GPU all operations count as cheap, so one thread starts them in the order in which they become ready.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum
from random import Random
from typing import Protocol


class Order(Enum):
    """The order in which ready operations run."""

    THREAD_POOL = "as TensorFlow's thread pool on a CPU"
    FIRST_READY = "first ready first"
    AS_TRACED = "as traced"


class Schedule(Protocol):
    """The operations that are ready, by index."""

    def begin(self, ready: Iterable[int]) -> None:
        """Add the operations that wait for nothing."""

    def add(self, worker: int, ready: Iterable[int]) -> None:
        """Add the operations that became ready because this worker finished an operation."""

    def take(self, worker: int) -> int | None:
        """Take the next operation for this worker; None if nothing is ready."""


def schedule(order: Order, is_cheap: Sequence[bool], workers: int, chance: Random) -> Schedule:
    """The schedule of this order.

    Args:
        order: the order in which ready operations run.
        is_cheap: for each operation, whether it takes next to no time.
        workers: how many operations run at a time.
        chance: decides which thread begins with what.
    """
    if order is Order.THREAD_POOL:
        return _ThreadPool(is_cheap, workers, chance)
    if order is Order.AS_TRACED:
        return _Heap()
    return _Line()


class _Line:
    """A single queue for all workers."""

    def __init__(self) -> None:
        self._queue: deque[int] = deque()

    def begin(self, ready: Iterable[int]) -> None:
        self._queue.extend(ready)

    def add(self, worker: int, ready: Iterable[int]) -> None:
        self._queue.extend(ready)

    def take(self, worker: int) -> int | None:
        return self._queue.popleft() if self._queue else None


class _Heap:
    """A single queue for all workers, in the order of the trace."""

    def __init__(self) -> None:
        self._heap: list[int] = []

    def begin(self, ready: Iterable[int]) -> None:
        self.add(0, ready)

    def add(self, worker: int, ready: Iterable[int]) -> None:
        for index in ready:
            heapq.heappush(self._heap, index)

    def take(self, worker: int) -> int | None:
        return heapq.heappop(self._heap) if self._heap else None


class _ThreadPool:
    """A queue for each worker, with the operations that the worker runs inline."""

    def __init__(self, is_cheap: Sequence[bool], workers: int, chance: Random) -> None:
        self._is_cheap, self._chance = is_cheap, chance
        self._inline: list[deque[int]] = [deque() for _ in range(workers)]
        self._queues: list[deque[int]] = [deque() for _ in range(workers)]

    def begin(self, ready: Iterable[int]) -> None:
        for index in ready:
            self._chance.choice(self._queues).append(index)

    def add(self, worker: int, ready: Iterable[int]) -> None:
        inline, queue = self._inline[worker], self._queues[worker]
        kept: int | None = None
        for index in ready:
            if self._is_cheap[index]:
                inline.append(index)
                continue
            if kept is not None:
                queue.appendleft(kept)
            kept = index
        if kept is not None:
            if inline:
                queue.appendleft(kept)
            else:
                inline.append(kept)

    def take(self, worker: int) -> int | None:
        for own in (self._inline[worker], self._queues[worker]):
            if own:
                return own.popleft()
        full = [queue for queue in self._queues if queue]
        return self._chance.choice(full).pop() if full else None
