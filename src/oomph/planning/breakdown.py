"""Divides the peak of a step among weights, slots, gradients, activations, the optimizer's update and the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from oomph.planning.all_reduce import exchanged
from oomph.planning.estimate import Interval, Item, Layer, MemoryMoment
from oomph.planning.layers import by_layer, is_gradient
from oomph.planning.liveness import Lifetime
from oomph.planning.prediction import Prediction
from oomph.planning.program import Program

_MOMENTS = 300
PACKED = "gradients in the all-reduce"


@dataclass(frozen=True)
class Held:
    """The bytes that a training keeps in memory from step to step, by kind."""

    weights: int
    slots: int
    other: int
    """The bytes of metrics, counters and the states of random generators."""
    largest: int = 0
    """The bytes of the largest single variable, which the other fields include."""

    @property
    def total(self) -> int:
        """The bytes of weights, slots and all other variables together."""
        return self.weights + self.slots + self.other


def items(program: Program, prediction: Prediction, held: Held) -> tuple[Item, ...]:
    """The expected peak of a step, split by kind of memory; the sizes add up to the peak."""
    kinds, packed = Counter[str](), exchanged(program)
    for tensor, size in prediction.typical.alive:
        kinds[PACKED if tensor in packed else _kind(program, tensor)] += size
    counted = {"weights": held.weights, "optimizer slots": held.slots, "metrics and counters": held.other}
    left = prediction.peak.expected - sum(counted.values()) - sum(kinds.values())
    found = [Item(name, _exactly(size), "counted") for name, size in counted.items() if size]
    found += [Item(name, _exactly(size), "estimated") for name, size in kinds.items() if size]
    spread = Interval(0, max(0, left), max(0, left) + prediction.peak.high - prediction.peak.expected)
    found.append(Item("scratch memory and slack of the allocator", spread, "estimated"))
    return tuple(found)


def layers(program: Program, lifetime: Lifetime, names: Collection[str]) -> tuple[Layer, ...]:
    """The bytes of activations in use at the peak, by layer."""
    makers, packed = program.makers, exchanged(program)
    sizes = [
        (program.operations[makers[tensor]].name, size) for tensor, size in lifetime.alive
        if tensor not in packed and _kind(program, tensor) == "activations"
    ]  # fmt: skip
    return by_layer(sizes, names)


def timeline(program: Program, lifetime: Lifetime, held: int) -> tuple[MemoryMoment, ...]:
    """The memory in use through the step, in order: the largest moment of each stretch."""
    count = len(lifetime.trace)
    stretch = max(1, -(-count // _MOMENTS))
    moments = []
    for first in range(0, count, stretch):
        at = max(range(first, min(count, first + stretch)), key=lifetime.trace.__getitem__)
        moments.append(MemoryMoment(program.operations[lifetime.ran[at]].name, lifetime.trace[at] + held))
    return tuple(moments)


def _kind(program: Program, tensor: int) -> str:
    operation = program.operations[program.makers[tensor]]
    if operation.kind == "Placeholder":
        return "input batch"
    if operation.is_update:
        return "optimizer update"
    return "gradients" if is_gradient(operation.name) else "activations"


def _exactly(size: int) -> Interval:
    return Interval(size, size, size)
