"""Runs a program without computing anything: which tensors live at the same time, and what the allocator gives them.

The outputs of an operation live until the last operation that reads them has ended.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from oomph.planning.allocator import Allocator
from oomph.planning.program import Operation, Program, Storage
from oomph.planning.schedule import Order, schedule

_UNEVEN = (0.4, 2.5)
"""The range of the random factor by which the time of an operation varies."""
_NEARLY = 1.005
"""The live tensors are recorded when the peak has grown by this factor; recording each new peak would be slow."""


@dataclass(frozen=True)
class Lifetime:
    """One simulated run of a program, in bytes beyond what was in use before it."""

    peak: int
    at: int
    """The index of the operation that runs at the peak."""
    alive: tuple[tuple[int, int], ...]
    """The indices of the tensors that own memory at the peak, each with its bytes."""
    trace: tuple[int, ...]
    """The bytes in use when each operation has begun, in the order of `ran`."""
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
        """The program at this batch size."""
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
        """Let an idle worker begin an operation; False if no operation is ready."""
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
        """Release the memory of what the step returned."""
        for buffer in list(self._buffers.values()):
            self._allocator.release(buffer.handle)

    def _start(self, index: int) -> int | None:
        """Allocate an operation's outputs and scratch memory; returns the handle of the scratch memory."""
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
    """Run the program `steps` times in this order, up to `workers` operations at a time, and return the largest run.

    `held` bytes are in use before the first step. Later steps find the memory as earlier steps left it.
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
