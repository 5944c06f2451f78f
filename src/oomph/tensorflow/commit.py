"""The commit of a traced step: its assignments, held back until every value that they need has been computed.

TensorFlow's graph optimizer rewrites what it is free to rewrite: a product of three factors is computed in the order
that broadcasts least, unless somebody else looks at what is in between. So the gradients are left alone. What is about
to be assigned passes through one `IdentityN`, which runs when all of it exists; the optimizer sees the same expressions
before it as in Keras' own graph, and the step has the same bits.

Source: `MinimizeBroadcasts` and `ArithmeticNodesGroupOptimizerStage` in
tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc, which leave alone what drives a control dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops

_ONLY_READ = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")


def hold_back(apply: Callable[[], Any], commits: tf.Variable) -> Any:
    """Trace `apply`, and hold its assignments back; returns what it returns.

    Args:
        commits: is incremented before the first assignment, when all that is assigned first has been computed.
    """
    graph = ops.get_default_graph()
    before = len(graph.get_operations())
    result = apply()
    writers, waiting = _writers(graph.get_operations()[before:])
    if not writers:
        return result
    one = tf.constant(1, commits.dtype)
    *held, one = tf.identity_n([*(operation.inputs[place] for operation, place in waiting), one])
    counted = commits.assign_add(one)
    for (operation, place), value in zip(waiting, held, strict=True):
        operation._update_input(place, value)
    for operation in writers:
        operation._add_control_input(counted.op)
    return result


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
