"""Traces a model's training step at two batch sizes, without running it, and describes it as a program for any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.errors import ExamineError
from oomph.memory.program import Operation, Program, Size
from oomph.tensorflow.planning.flattening import FlatGraph, flatten, operations_before
from oomph.tensorflow.planning.samples import resized

_MUST_MATCH = 0.9
"""The share of operations that both traces must have."""


@dataclass(frozen=True)
class Traced:
    """One step at one batch size."""

    batch: int
    concrete: Any
    """The concrete function, which can be run."""
    flat: FlatGraph


def trace(model: Any, spec: Any, size: int, batch: int) -> Traced:
    """Trace a step of `batch` samples; `spec` describes a batch of `size`.

    Raises:
        ExamineError: the step cannot be traced at this size, for instance because the model fixes its batch size.
    """
    function = tf.function(lambda data: model.train_step(data), autograph=False, jit_compile=False)
    try:
        concrete = function.get_concrete_function(resized(spec, size, batch))
    except Exception as error:  # the user's own layers and losses may raise anything
        first = (str(error).strip().splitlines() or [""])[0]
        raise ExamineError(f"a step of {batch} samples cannot be traced: {type(error).__name__}: {first}") from error
    return Traced(batch, concrete, flatten(concrete.graph))


def traced_program(small: Traced, large: Traced, is_update: Callable[[str], bool]) -> Program | None:
    """The program of two traces, whose sizes grow evenly with the batch; None if the traces differ too much.

    It consists of the operations of the larger trace. A few may be missing in the smaller one, in which TensorFlow
    makes constants of small tensors.
    """
    flat, grow = large.flat, _Growth(small.batch, large.batch)
    twins = {made.name: made for made in small.flat.operations}
    if sum(made.name in twins for made in flat.operations) < _MUST_MATCH * len(flat.operations):
        return None
    kept = set(flat.kept)
    wanted = {
        index for index, made in enumerate(flat.operations) if made.is_effect or kept.intersection(made.outputs)
    }  # fmt: skip
    order = list(operations_before(flat, wanted))
    new = {old: index for index, old in enumerate(order)}
    sizes = [Size(size) for size in flat.sizes]
    operations = []
    for old in order:
        made = flat.operations[old]
        twin = twins.get(made.name, made)
        if len(twin.outputs) == len(made.outputs):
            for before, after in zip(twin.outputs, made.outputs, strict=True):
                sizes[after] = grow(
                    small.flat.sizes[before] if twin is not made else flat.sizes[after], flat.sizes[after]
                )
        operations.append(
            Operation(
                made.name, made.kind, tuple(made.inputs), tuple(made.outputs),
                tuple(new[end] for end in made.before if end in new), made.storage,
                workspace=grow(twin.workspace, made.workspace) if twin.workspace else Size(made.workspace),
                work=grow(twin.work, made.work),
                is_update=is_update(made.name),
            )
        )  # fmt: skip
    return Program(operations, sizes, frozenset(kept))


@dataclass(frozen=True)
class _Growth:
    small: int
    large: int

    def __call__(self, at_small: int, at_large: int) -> Size:
        if at_small == at_large or self.small == self.large:
            return Size(at_large)
        each = (at_large - at_small) / (self.large - self.small)
        return Size(at_small - each * self.small, each)
