"""Simulates a program without computing anything, to find which tensors coexist, and which memory they occupy.

An operation's outputs live until the last operation that reads them has finished.

Source for the order: tensorflow/core/common_runtime/executor.cc, `ScheduleReady`: of the operations that have just
become ready, the cheap ones run next on the same thread, followed by the last of the others; the rest go to the thread
pool. Eigen's NonBlockingThreadPool: a thread takes its newest task first, and an idle thread steals another thread's
oldest task. On a GPU all operations count as cheap, so one thread starts them in the order in which they become ready.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Protocol

from oomph.planning.allocator import Allocator
from oomph.planning.program import Operation, Program, Storage

_UNEVEN = (0.4, 2.5)
"""The range of the random factor by which an operation's duration varies."""
_NEARLY = 1.005
"""The factor by which the peak must grow before live tensors are recorded again; recording each peak would be slow."""


class Order(Enum):
    """The order in which ready operations run."""

    THREAD_POOL = "as TensorFlow's thread pool on a CPU"
    FIRST_READY = "first ready first"
    AS_TRACED = "as traced"


class Schedule(Protocol):
    """The operations that are ready to run, by index."""

    def begin(self, ready: Iterable[int]) -> None:
        """Add the operations that have no dependencies."""

    def add(self, worker: int, ready: Iterable[int]) -> None:
        """Add the operations that became ready because this worker finished an operation."""

    def take(self, worker: int) -> int | None:
        """Return the next operation for this worker, or None if no operation is ready."""


def schedule(order: Order, is_cheap: Sequence[bool], workers: int, chance: Random) -> Schedule:
    """Return a schedule for the given order.

    Args:
        order: the order in which ready operations run.
        is_cheap: for each operation, True if it takes almost no time.
        workers: how many operations run at a time.
        chance: decides which operation each thread starts with.
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
    """A single queue for all workers, in tracing order."""

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
    """One queue per worker, plus the operations that the worker runs inline."""

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


@dataclass(frozen=True)
class Lifetime:
    """One simulated run of a program. Amounts of memory are in bytes, on top of the memory in use before the run."""

    peak: int
    at: int
    """The index of the operation that runs at the peak."""
    alive: tuple[tuple[int, int], ...]
    """The indices of the tensors that own memory at the peak, each with its size in bytes."""
    trace: tuple[int, ...]
    """The memory in use, in bytes, after the start of each operation, in the order of `ran`."""
    ran: tuple[int, ...]


@dataclass
class _Buffer:
    handle: int
    size: int
    readers: int
    tensor: int


@dataclass(frozen=True)
class _Sized:
    """The sizes of a program at one batch size, in bytes."""

    program: Program
    sizes: Sequence[int]
    workspaces: Sequence[int]
    works: Sequence[int]

    @classmethod
    def of(cls, program: Program, batch: int) -> _Sized:
        """Return the sizes of the program at the given batch size."""
        return cls(
            program,
            [size.at(batch) for size in program.sizes],
            [operation.workspace.at(batch) for operation in program.operations],
            [operation.work.at(batch) for operation in program.operations],
        )


class _Run:
    """One simulated execution."""

    def __init__(self, sized: _Sized, order: Order, allocator: Allocator, workers: int, chance: Random) -> None:
        program, self._sized, self._workers = sized.program, sized, workers
        self._sizes = sized.sizes
        self._operations: Sequence[Operation] = program.operations
        self._allocator, self._chance = allocator, chance
        self._before = allocator.in_use
        self._waiting = list(program.dependences.waiting)
        self._followers, self._readers = program.dependences.followers, program.dependences.readers
        self._buffers: dict[int, _Buffer] = {}
        self._of: dict[int, _Buffer | None] = {}
        is_cheap = [operation.storage in (Storage.HELD, Storage.SHARED) for operation in program.operations]
        self._schedule = schedule(order, is_cheap, workers, chance)
        self.peak, self.at, self._noted = 0, 0, 0
        self.alive: tuple[tuple[int, int], ...] = ()
        self.trace: list[int] = []
        self.ran: list[int] = []

    def run(self) -> Lifetime:
        self._schedule.begin(index for index, count in enumerate(self._waiting) if not count)
        running: list[tuple[int, int, int, int | None]] = []
        now, idle = 0, list(range(self._workers))
        while True:
            idle = [worker for worker in idle if not self._takes_up(worker, now, running)]
            if not running:
                return Lifetime(self.peak, self.at, self.alive, tuple(self.trace), tuple(self.ran))
            now, index, worker, scratch = heapq.heappop(running)
            self._end(index, scratch)
            self._schedule.add(worker, self._made_ready(index))
            idle.insert(0, worker)

    def _takes_up(self, worker: int, now: int, running: list[tuple[int, int, int, int | None]]) -> bool:
        """Let an idle worker start an operation. Returns False if no operation is ready."""
        index = self._schedule.take(worker)
        if index is None:
            return False
        scratch = self._start(index)
        heapq.heappush(running, (now + self._duration(index), index, worker, scratch))
        return True

    def _made_ready(self, index: int) -> list[int]:
        ready = []
        for follower in self._followers[index]:
            self._waiting[follower] -= 1
            if not self._waiting[follower]:
                ready.append(follower)
        return ready

    def _duration(self, index: int) -> int:
        return round(self._sized.works[index] * self._chance.uniform(*_UNEVEN))

    def leave(self) -> None:
        """Release the memory of everything that the step returned."""
        for buffer in list(self._buffers.values()):
            self._allocator.release(buffer.handle)

    def _start(self, index: int) -> int | None:
        """Allocate an operation's outputs and scratch memory. Returns the handle of the scratch memory, if any."""
        operation = self._operations[index]
        self._make_outputs(operation)
        workspace = self._sized.workspaces[index]
        handle = self._allocator.allocate(workspace) if workspace else None
        in_use = self._allocator.in_use - self._before
        if in_use > self.peak:
            self.peak, self.at = in_use, index
            if in_use > _NEARLY * self._noted:
                self._noted = in_use
                self.alive = tuple((buffer.tensor, buffer.size) for buffer in self._buffers.values())
        self.trace.append(in_use)
        self.ran.append(index)
        return handle

    def _end(self, index: int, scratch: int | None) -> None:
        """Release the memory that only this operation needed."""
        operation = self._operations[index]
        if scratch is not None:
            self._allocator.release(scratch)
        for tensor in operation.inputs:
            self._let_go(self._of.get(tensor))
        for tensor in operation.outputs:
            if not self._readers[tensor]:
                self._let_go(self._of.get(tensor))

    def _make_outputs(self, operation: Operation) -> None:
        if operation.storage is Storage.HELD:
            self._of.update(dict.fromkeys(operation.outputs))
            return
        for position, tensor in enumerate(operation.outputs):
            size = self._sizes[tensor]
            buffer = self._existing(operation, position, size)
            if buffer is None and not (operation.storage is Storage.SHARED and operation.inputs):
                buffer = self._new(tensor, size)
            self._of[tensor] = buffer
            if buffer is not None:
                buffer.readers += max(1, self._readers[tensor])

    def _existing(self, operation: Operation, position: int, size: int) -> _Buffer | None:
        if operation.storage is Storage.SHARED and operation.inputs:
            return self._of.get(operation.inputs[position if position < len(operation.inputs) else 0])
        if operation.storage is Storage.FORWARDED:
            for tensor in operation.inputs:
                buffer = self._of.get(tensor)
                if buffer is not None and buffer.readers == 1 and self._sizes[tensor] == size:
                    return buffer
        return None

    def _new(self, tensor: int, size: int) -> _Buffer:
        handle = self._allocator.allocate(size)
        assert handle is not None, "an allocator without a limit gives what it is asked for"
        buffer = _Buffer(handle, size, 0, tensor)
        self._buffers[handle] = buffer
        return buffer

    def _let_go(self, buffer: _Buffer | None) -> None:
        if buffer is None:
            return
        buffer.readers -= 1
        if buffer.readers == 0:
            self._allocator.release(buffer.handle)
            del self._buffers[buffer.handle]


def simulate(
    program: Program, batch: int, order: Order, held: int = 0, workers: int = 1, seed: int = 0, steps: int = 3
) -> Lifetime:
    """Simulate the program for `steps` steps in the given order, and return the step with the highest peak.

    Up to `workers` operations run at a time. `held` bytes are in use before the first step. Each step starts with the
    allocator as the previous step left it.
    """
    allocator, chance = Allocator(), Random(seed)
    if held:
        allocator.allocate(held)
    sized, runs = _Sized.of(program, batch), []
    for _ in range(steps):
        one = _Run(sized, order, allocator, workers, chance)
        runs.append(one.run())
        one.leave()
    return max(runs, key=lambda run: run.peak)
