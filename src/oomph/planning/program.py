"""Represents a training step as a program: operations and the tensors between them, with sizes at any batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import NamedTuple


class Storage(Enum):
    """The storage of an operation's outputs."""

    NEW = "new"
    """Newly allocated memory."""
    FORWARDED = "forwarded"
    """The memory of an input of the same size that nothing else needs, or newly allocated memory."""
    SHARED = "shared"
    """The memory of the input with the same index, or of the first input if there are fewer."""
    HELD = "held"
    """Memory that persists from step to step: constants and variables."""


@dataclass(frozen=True)
class Size:
    """A number of bytes that depends on the batch: `fixed + per_sample * batch + per_pair * batch**2`, at least 0."""

    fixed: float
    per_sample: float = 0.0
    per_pair: float = 0.0
    """The number of bytes per pair of samples, as in a contrastive loss."""

    def at(self, batch: int) -> int:
        """Return the number of bytes at the given batch size."""
        return max(0, round(self.fixed + self.per_sample * batch + self.per_pair * batch * batch))


@dataclass(frozen=True)
class Operation:
    """One operation, which waits for its inputs and the operations in `before`, and then produces its outputs."""

    name: str
    kind: str
    inputs: tuple[int, ...]
    """The indices of the tensors that the operation reads."""
    outputs: tuple[int, ...]
    before: tuple[int, ...]
    """The indices of operations that must finish first, although they provide no tensor."""
    storage: Storage
    workspace: Size = Size(0)
    """The operation's scratch memory while it runs, excluding its outputs."""
    is_update: bool = False
    """True if the operation belongs to the optimizer's update."""
    work: Size = Size(0)
    """The running time, expressed as the bytes that memory could move meanwhile; it decides what runs in parallel."""


class Dependences(NamedTuple):
    """The dependencies of operations, and the number of readers of each tensor, by index."""

    waiting: tuple[int, ...]
    """The number of operations that each operation waits for."""
    followers: tuple[tuple[int, ...], ...]
    """The indices of the operations that wait for each operation."""
    readers: tuple[int, ...]
    """The number of operations that read each tensor; returning it from the step counts as one."""


@dataclass(frozen=True)
class Program:
    """A training step, pruned to the operations that run and listed in a valid order."""

    operations: Sequence[Operation]
    sizes: Sequence[Size]
    """The size of each tensor, as a function of the batch size."""
    kept: frozenset[int]
    """The indices of the tensors that the step returns, which live until it has finished."""

    @property
    def convolves(self) -> bool:
        """True if the step contains a convolution."""
        return any(operation.kind.startswith("Conv") for operation in self.operations)

    @cached_property
    def makers(self) -> dict[int, int]:
        """The index of the operation that produces each tensor, keyed by tensor index."""
        return {tensor: index for index, operation in enumerate(self.operations) for tensor in operation.outputs}

    @cached_property
    def dependences(self) -> Dependences:
        """The dependencies of the operations."""
        makers, readers = self.makers, [0] * len(self.sizes)
        waiting: list[int] = []
        followers: list[list[int]] = [[] for _ in self.operations]
        for index, operation in enumerate(self.operations):
            for tensor in operation.inputs:
                readers[tensor] += 1
            needed = {makers[tensor] for tensor in operation.inputs if tensor in makers} | set(operation.before)
            waiting.append(len(needed))
            for maker in needed:
                followers[maker].append(index)
        for tensor in self.kept:
            readers[tensor] += 1
        return Dependences(tuple(waiting), tuple(map(tuple, followers)), tuple(readers))
