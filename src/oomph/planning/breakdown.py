"""Divides the peak of a step among weights, slots, gradients, activations, the optimizer's update and the rest.

The scopes in an operation's name show which layer it belongs to. When several replicas sum their gradients, these are
packed, reduced and unpacked. Source: `CollectiveAllReduce` and `NcclAllReduce` in
tensorflow/python/distribute/cross_device_ops.py: all gradients in one tensor, unless a pack size is given.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from oomph.planning.liveness import Lifetime
from oomph.planning.plan import Interval, Item, Layer, MemoryMoment, exactly
from oomph.planning.prediction import Prediction
from oomph.planning.program import Program

REDUCTIONS = frozenset({"CollectiveReduce", "CollectiveReduceV2", "CollectiveReduceV3", "NcclAllReduce"})
ARRIVED = "_Recv"
"""The type of the operation that receives a tensor from another replica."""
_JOINS, _PARTS, _RENAMES = ("Concat", "ConcatV2"), ("Split", "SplitV"), ("Identity", "IdentityN", "Reshape")
_NUMBERED = re.compile(r"_\d{1,4}\Z")
_GRADIENT = "gradient_tape/"
_MOMENTS = 300
PACKED = "gradients in the all-reduce"


def exchanged(program: Program) -> frozenset[int]:
    """Return the indices of the tensors that contain packed or reduced gradients, or gradients from other replicas."""
    found: set[int] = set()
    makers = program.makers
    for operation in program.operations:
        if operation.kind == ARRIVED:
            found.update(operation.outputs)
        elif operation.kind in REDUCTIONS:
            found.update(operation.outputs)
            joined = [
                tensor for tensor in operation.inputs
                if tensor in makers and program.operations[makers[tensor]].kind in _JOINS
            ]  # fmt: skip
            found.update(joined)
        elif operation.kind in (*_PARTS, *_RENAMES) and found.intersection(operation.inputs):
            found.update(operation.outputs)
    return frozenset(found)


def is_gradient(operation: str) -> bool:
    """True if the operation belongs to the backward pass."""
    return operation.startswith(_GRADIENT)


def layer_of(operation: str, names: Collection[str]) -> str:
    """Return the innermost scope in an operation's name that is also a layer's name; empty if there is none.

    TensorFlow numbers a scope that is entered more than once: `conv2d_1_2` may be `conv2d_1` the second time.
    """
    for scope in reversed(operation.removeprefix(_GRADIENT).split("/")[:-1]):
        if scope in names:
            return scope
        bare = _NUMBERED.sub("", scope)
        if bare in names:
            return bare
    return ""


def by_layer(sizes: Iterable[tuple[str, int]], names: Collection[str]) -> tuple[Layer, ...]:
    """Add up the sizes of operations by layer, in bytes, largest layer first."""
    total: Counter[str] = Counter()
    for operation, size in sizes:
        total[layer_of(operation, names) or "other"] += size
    return tuple(Layer(name, size) for name, size in total.most_common())


@dataclass(frozen=True)
class Held:
    """The sizes in bytes, by kind, of the memory that training keeps from step to step."""

    weights: int
    slots: int
    other: int
    """The size in bytes of metrics, counters and random generator states."""
    largest: int = 0
    """The size in bytes of the largest single variable, which is also included in the other fields."""

    @property
    def total(self) -> int:
        """The size in bytes of weights, slots and all other variables together."""
        return self.weights + self.slots + self.other

    def items(self) -> tuple[Item, ...]:
        """Return the sizes as items of a plan, leaving out kinds with a size of 0."""
        sizes = {"weights": self.weights, "optimizer slots": self.slots, "metrics and counters": self.other}
        return tuple(Item(name, exactly(size), "counted") for name, size in sizes.items() if size)


def items(program: Program, prediction: Prediction, held: Held) -> tuple[Item, ...]:
    """Split the expected peak of a step by kind of memory; the sizes add up to the peak."""
    kinds, packed = Counter[str](), exchanged(program)
    for tensor, size in prediction.typical.alive:
        kinds[PACKED if tensor in packed else _kind(program, tensor)] += size
    left = prediction.peak.expected - held.total - sum(kinds.values())
    found = [*held.items(), *(Item(name, exactly(size), "estimated") for name, size in kinds.items() if size)]
    spread = Interval(0, max(0, left), max(0, left) + prediction.peak.high - prediction.peak.expected)
    found.append(Item("scratch memory and allocator slack", spread, "estimated"))
    return tuple(found)


def layers(program: Program, lifetime: Lifetime, names: Collection[str]) -> tuple[Layer, ...]:
    """Return the activations in use at the peak, by layer, in bytes."""
    makers, packed = program.makers, exchanged(program)
    sizes = [
        (program.operations[makers[tensor]].name, size) for tensor, size in lifetime.alive
        if tensor not in packed and _kind(program, tensor) == "activations"
    ]  # fmt: skip
    return by_layer(sizes, names)


def timeline(program: Program, lifetime: Lifetime, held: int) -> tuple[MemoryMoment, ...]:
    """Divide the step into equal stretches and return the moment of highest memory use in each, in order."""
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
