"""Traces a model's training step at given batch sizes, without running it, and describes it as a program."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from oomph.plan.program import Operation, Program, Size
from oomph.tensorflow.planning.flattening import FlatGraph, flatten, operations_before


def trace(model: Any, specification: Any, batch: int) -> FlatGraph:
    """One step of this batch size; `specification` is the structure of a batch, its first dimension the batch."""
    given = tf.nest.map_structure(lambda spec: _with_batch(spec, batch), specification)
    function = tf.function(lambda data: model.train_step(data), autograph=False)
    concrete = function.get_concrete_function(given)
    return flatten(concrete.graph)


def _with_batch(spec: Any, batch: int) -> Any:
    return tf.TensorSpec([batch, *spec.shape[1:]], spec.dtype)


def as_program(one: FlatGraph, other: FlatGraph | None, batches: tuple[int, int]) -> Program | None:
    """The program of two traces at two batch sizes; None if they do not consist of the same operations."""
    kept = set(one.kept)
    wanted = {
        index for index, made in enumerate(one.operations)
        if made.is_effect or kept.intersection(made.outputs)
    }  # fmt: skip
    order = list(operations_before(one, wanted))
    if other is not None and [(o.name, o.kind) for o in one.operations] != [(o.name, o.kind) for o in other.operations]:
        return None
    new = {old: index for index, old in enumerate(order)}
    operations = [
        Operation(
            made.name, made.kind, tuple(made.inputs), tuple(made.outputs),
            tuple(new[end] for end in made.before if end in new), made.storage,
            _size(made.workspace, other and other.operations[old].workspace, batches),
            _size(made.work, other and other.operations[old].work, batches),
        )
        for old, made in ((old, one.operations[old]) for old in order)
    ]  # fmt: skip
    sizes = [_size(size, other and other.sizes[index], batches) for index, size in enumerate(one.sizes)]
    return Program(operations, sizes, frozenset(one.kept))


def _size(one: int, other: Any, batches: tuple[int, int]) -> Size:
    if other is None or one == other:
        return Size(one)
    each = (other - one) / (batches[1] - batches[0])
    return Size(one - each * batches[0], each)

