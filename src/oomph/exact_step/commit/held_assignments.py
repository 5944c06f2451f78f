"""The commit of a traced step: holds back its assignments until every value that they need has been computed.

TensorFlow's graph optimizer rewrites what it can: it computes a product of three factors in the order that broadcasts
least, unless another operation uses the intermediate value. So the gradients stay untouched. All values to assign pass
through one `IdentityN`, which runs once all of them exist. Before it, the optimizer sees the same expressions as in
Keras' own graph, so the step has the same bits.

If weights, data or other models fill most of the device, there is no room for a second value of each weight. Then
nothing is held back, as in Keras' own step: after an out-of-memory error some assignments may be done, and only a
checkpoint helps. The same holds after the first step where TensorFlow knows no limit of the memory, as on a CPU: there
holding costs up to 5 % of the time, and the system ends the process before an update could run out of memory.

Source: `MinimizeBroadcasts` and `ArithmeticNodesGroupOptimizerStage` in
tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc, which do not rewrite what drives a control dependency.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_ONLY_READ = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")


def hold_back(
    apply: Callable[[], Any], commits: tf.Variable, room_bytes: Callable[[], int | None] = lambda: None
) -> Any:
    """Trace `apply` and hold back its assignments. Returns what `apply` returns.

    Args:
        commits: incremented before the first assignment, once all values to assign first have been computed.
        room_bytes: how many bytes may be held on the device, called when all variables exist; None: any amount. If the
            values need more, nothing is held, and `commits` is incremented once the step has its batch.
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
    """Trace `apply` so that the inputs of each assignment are computed after the previous one, in code order.

    TensorFlow would compute them in parallel and hold the intermediate values of all variables at once. Memory is short
    when a divided batch is committed.
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
            # Only forward in code order, like TensorFlow's own edges between reads and writes.
            if earlier is not None and number[id(operation)] > number[id(earlier)]:
                TENSORFLOW.add_control_input.call(operation, earlier)


def _needed(writer: Any, among: dict[int, int], taken: set[int]) -> list[Any]:
    """The writer and all operations that must run before it, except those in `taken`; adds them to `taken`."""
    found, remaining = [], [writer]
    while remaining:
        operation = remaining.pop()
        if id(operation) in among and id(operation) not in taken:
            taken.add(id(operation))
            found.append(operation)
            remaining += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return found


def held_bytes(graph: Any) -> int:
    """The number of bytes that a traced step holds back."""
    return sum(_nbytes(value) for barrier, _ in _barriers(graph) for value in barrier.inputs)


def without_barriers(graph: Any) -> Any:
    """The GraphDef of a traced step whose assignments wait only for the batch and their own values.

    The batch comes first because Keras' step, which finds the end of the data, must find nothing assigned.
    """
    definition = graph.as_graph_def(add_shapes=True)
    nodes = {node.name: node for node in definition.node}
    for barrier, counted in _barriers(graph):
        *values, one = map(_reference, barrier.inputs)
        held = {_reference(output): value for output, value in zip(barrier.outputs, values, strict=False)}
        for user in {user.name for output in barrier.outputs[:-1] for user in output.consumers()}:
            nodes[user].input[:] = [held.get(name, name) for name in nodes[user].input]
        given = definition.node.add(name=f"{barrier.name}_given", op="Identity", input=[_reference(graph.inputs[0])])
        given.attr["T"].type = graph.inputs[0].dtype.as_datatype_enum
        nodes[counted.name].input[1:] = [one, f"^{given.name}", *nodes[counted.name].input[2:]]
    return definition


def _barriers(graph: Any) -> list[tuple[Any, Any]]:
    """Pairs of an operation that holds values back and the increment of `commits` that waits for it."""
    held = [operation for operation in graph.get_operations() if operation.type == "IdentityN"]
    users = [(operation, user) for operation in held for user in operation.outputs[-1].consumers()]
    return [(operation, user) for operation, user in users if user.type == "AssignAddVariableOp"]


def _reference(tensor: Any) -> str:
    """The name of a tensor as an input of a node."""
    return str(tensor.name).removesuffix(":0")


def _nbytes(value: Any) -> int:
    """The bytes of a tensor; 0 if its shape is unknown."""
    return int(value.shape.num_elements() or 0) * int(value.dtype.size)


def _writers(operations: list[Any]) -> tuple[list[Any], list[tuple[Any, int]]]:
    """The operations that may write a variable, and their inputs that depend on no such write."""
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
