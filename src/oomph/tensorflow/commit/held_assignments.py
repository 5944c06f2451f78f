"""The commit of a traced step: its assignments, held back until every value that they need has been computed.

TensorFlow's graph optimizer rewrites what it is free to rewrite: a product of three factors is computed in the order
that broadcasts least, unless somebody else looks at what is in between. So the gradients are left alone. What is about
to be assigned passes through one `IdentityN`, which runs when all of it exists; the optimizer sees the same expressions
before it as in Keras' own graph, and the step has the same bits.

Where weights fill most of the device there is no room for a second value of each. There nothing is held back, as in
Keras' own step: an out-of-memory error may find some of the assignments done, and only a checkpoint helps.

Source: `MinimizeBroadcasts` and `ArithmeticNodesGroupOptimizerStage` in
tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc, which leave alone what drives a control dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph.tensorflow.names.tensorflow2 import TENSORFLOW

_ONLY_READ = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")


def hold_back(
    apply: Callable[[], Any], commits: tf.Variable, room_bytes: Callable[[], int | None] = lambda: None
) -> Any:
    """Trace `apply`, and hold its assignments back; returns what it returns.

    Args:
        commits: is incremented before the first assignment, when all that is assigned first has been computed.
        room_bytes: how much may be held on the device, asked when all variables exist; None: any amount. When it is
            more, nothing is held, and `commits` is incremented when the step has its batch.
    """
    graph = TENSORFLOW.default_graph.value()()
    before = len(graph.get_operations())
    result = apply()
    writers, waiting = _writers(graph.get_operations()[before:])
    if not writers:
        return result
    one = tf.constant(1, commits.dtype)
    values = [operation.inputs[place] for operation, place in waiting]
    room = room_bytes()
    if room is not None and sum(map(_nbytes, values)) > room:
        traced = isinstance(graph, TENSORFLOW.func_graph.value())
        given = [tf.identity(tensor) for tensor in graph.inputs[:1]] if traced else []
        with tf.control_dependencies(given):
            counted = commits.assign_add(one)
    else:
        *held, one = tf.identity_n([*values, one])
        counted = commits.assign_add(one)
        for (operation, place), value in zip(waiting, held, strict=True):
            TENSORFLOW.update_input.call(operation, place, value)
    for operation in writers:
        TENSORFLOW.add_control_input.call(operation, counted.op)
    return result


def one_by_one(apply: Callable[[], None]) -> None:
    """Trace `apply`, so that what one assignment needs is computed after the one before it, in the order of the code.

    TensorFlow would compute them side by side, and hold the intermediate values of all variables at once. A divided
    batch is committed where memory is short.
    """
    graph = TENSORFLOW.default_graph.value()()
    before = len(graph.get_operations())
    apply()
    operations = graph.get_operations()[before:]
    number = {id(operation): place for place, operation in enumerate(operations)}
    taken: set[int] = set()
    writers, _ = _writers(operations)
    for earlier, writer in zip([None, *writers], writers, strict=False):
        for operation in _needed(writer, number, taken):
            # Only forwards in the order of the code, as TensorFlow's own edges between reads and writes are.
            if earlier is not None and number[id(operation)] > number[id(earlier)]:
                TENSORFLOW.add_control_input.call(operation, earlier)


def _needed(writer: Any, among: dict[int, int], taken: set[int]) -> list[Any]:
    """What has to run before a writer and is not among `taken`, to which it is added; itself included."""
    found, remaining = [], [writer]
    while remaining:
        operation = remaining.pop()
        if id(operation) in among and id(operation) not in taken:
            taken.add(id(operation))
            found.append(operation)
            remaining += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return found


def held_bytes(graph: Any) -> int:
    """How much a traced step holds back, in bytes; 0 where nothing is."""
    barriers = [op for op in graph.get_operations() if op.type == "IdentityN" and _drives_a_count(op)]
    return sum(_nbytes(value) for barrier in barriers for value in barrier.inputs)


def _drives_a_count(operation: Any) -> bool:
    return any(user.type == "AssignAddVariableOp" for user in operation.outputs[-1].consumers())


def _nbytes(value: Any) -> int:
    """Of a tensor; 0 where its shape is not known."""
    return int(value.shape.num_elements() or 0) * int(value.dtype.size)


def _writers(operations: list[Any]) -> tuple[list[Any], list[tuple[Any, int]]]:
    """The operations that may write a variable, and the inputs of them that no such write comes before."""
    written: set[int] = set()
    late: set[int] = set()
    writers: list[Any] = []
    waiting: list[tuple[Any, int]] = []
    for operation in operations:
        inputs = list(operation.inputs)
        resources = {id(tensor) for tensor in inputs if tensor.dtype == tf.resource}
        writes = bool(resources) and operation.op_def.is_stateful and operation.type not in _ONLY_READ
        if writes:
            writers.append(operation)
            free = [n for n, t in enumerate(inputs) if t.dtype != tf.resource and id(t.op) not in late]
            waiting += [(operation, place) for place in free if not resources & written]
            written |= resources
        comes_after = resources & written or any(id(tensor.op) in late for tensor in inputs)
        if comes_after or any(id(control) in late for control in operation.control_inputs):
            late.add(id(operation))
    return writers, waiting
