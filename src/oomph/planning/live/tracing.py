"""Traces a model's training step at a few batch sizes, without running it, and describes it for any size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError
from oomph.planning.breakdown import is_gradient
from oomph.planning.live.flat_graph import Flat, FlatGraph, operations_before
from oomph.planning.live.flattening import flatten
from oomph.planning.live.samples import resized
from oomph.planning.live.strategy import elsewhere
from oomph.planning.program import Operation, Program, Size
from oomph.reach.script_output import in_words as error_in_words

_NUMBER = re.compile(r"_\d{1,4}\Z")
_MUST_MATCH = 0.9
"""The share of operations that two traces must have in common."""
_BENT = 0.02
"""The relative deviation from a straight line above which a size does not grow evenly."""


def is_update_of(optimizers: Iterable[Any]) -> Callable[[str], bool]:
    """Return a function that is True for the names of operations in the update of one of these optimizers.

    Loss scaling puts its inner optimizer's update inside a conditional: "cond/cond/adam_1/Square_4".
    """
    inner = [(each, getattr(each, "inner_optimizer", each)) for each in optimizers]
    names = {optimizer.name for pair in inner for optimizer in pair}

    def is_update(operation: str) -> bool:
        if is_gradient(operation):
            return False
        return any(scope in names or _NUMBER.sub("", scope) in names for scope in operation.split("/")[:-1])

    return is_update


@dataclass(frozen=True)
class Traced:
    """One step, traced at one batch size."""

    batch: int
    concrete: Any
    """The concrete function of the step, which can be run."""
    flat: FlatGraph

    def in_another_order(self) -> Traced:
        """Return the same step again. TensorFlow optimizes its graph again, so operations run in a different order."""
        again = tf.function(lambda data: self.concrete(data), autograph=False, jit_compile=False)
        return replace(self, concrete=again.get_concrete_function(*self.concrete.structured_input_signature[0]))


def trace(model: Any, spec: Any, size: int, batch: int) -> Traced:
    """Trace a step of `batch` samples; `spec` describes a batch of `size` samples.

    With several replicas, each gets `batch` samples, and the first one is described.

    Raises:
        ExamineError: the step cannot be traced at this size, for instance because the model fixes its batch size.
    """
    strategy = model.distribute_strategy
    function = tf.function(
        lambda data: strategy.run(model.train_step, args=(data,)), autograph=False, jit_compile=False
    )  # fmt: skip
    try:
        concrete = function.get_concrete_function(resized(spec, size, batch))
    except Exception as error:  # the user's own layers and losses may raise anything
        raise ExamineError(f"a step of {batch} samples cannot be traced: {error_in_words(error)}") from error
    return Traced(batch, concrete, flatten(concrete.graph, elsewhere(strategy)))


def traced_program(traces: Sequence[Traced], is_update: Callable[[str], bool]) -> Program | None:
    """Build the program from traces at increasing batch sizes, or return None if the first and last differ too much.

    It consists of the operations of the last trace. A few may be missing from the other traces, where TensorFlow turns
    small tensors into constants.
    """
    flat, growth = traces[-1].flat, SizeGrowth(tuple(trace.batch for trace in traces))
    twins = [{made.name: made for made in trace.flat.operations} for trace in traces[:-1]]
    if twins and sum(made.name in twins[0] for made in flat.operations) < _MUST_MATCH * len(flat.operations):
        return None
    order = _what_runs(flat)
    new = {old: index for index, old in enumerate(order)}
    sizes = [Size(size) for size in flat.sizes]
    operations = []
    for old in order:
        made = flat.operations[old]
        same = [_alike(known.get(made.name), made) for known in twins]
        for position, tensor in enumerate(made.outputs):
            smaller = [
                flat.sizes[tensor] if twin is None else trace.flat.sizes[twin.outputs[position]]
                for twin, trace in zip(same, traces, strict=False)
            ]
            sizes[tensor] = growth.of([*smaller, flat.sizes[tensor]])
        operations.append(
            Operation(
                made.name, made.kind, tuple(made.inputs), tuple(made.outputs),
                tuple(new[end] for end in made.before if end in new), made.storage,
                workspace=growth.of([(twin or made).workspace for twin in same] + [made.workspace]),
                work=growth.of([(twin or made).work for twin in same] + [made.work]),
                is_update=is_update(made.name),
            )
        )  # fmt: skip
    return Program(operations, sizes, frozenset(flat.kept))


def _what_runs(flat: FlatGraph) -> list[int]:
    """Return the indices of operations that are returned or have an effect, and of all operations that these need."""
    kept = set(flat.kept)
    wanted = {
        index for index, made in enumerate(flat.operations) if made.is_effect or kept.intersection(made.outputs)
    }  # fmt: skip
    return list(operations_before(flat, wanted))


def _alike(twin: Flat | None, made: Flat) -> Flat | None:
    return twin if twin is not None and len(twin.outputs) == len(made.outputs) else None


@dataclass(frozen=True)
class SizeGrowth:
    """Models how a size in bytes grows with the batch, from its values at one to three batch sizes."""

    batches: tuple[int, ...]

    def of(self, sizes: Sequence[int]) -> Size:
        """Fit the size, as a function of the batch, to its values at these batch sizes."""
        first, last = sizes[0], sizes[-1]
        if first == last or len(self.batches) == 1:
            return Size(last)
        each = (last - first) / (self.batches[-1] - self.batches[0])
        line = Size(first - each * self.batches[0], each)
        if len(self.batches) == 3 and abs(line.at(self.batches[1]) - sizes[1]) > _BENT * sizes[1]:
            return self._bent(sizes)
        return line

    def _bent(self, sizes: Sequence[int]) -> Size:
        """Fit a parabola through three points if the size curves upwards, otherwise a line through the last two."""
        (one, two, three), (small, middle, large) = self.batches, sizes
        rise, further = (middle - small) / (two - one), (large - middle) / (three - two)
        pair = (further - rise) / (three - one)
        if pair <= 0:
            return Size(large - further * three, further)
        each = rise - pair * (one + two)
        return Size(small - each * one - pair * one * one, each, pair)
