"""Holds back a step's assignments until the step is certain to succeed.

TensorFlow's graph optimizer rewrites expressions: it computes a product of three factors in whichever order broadcasts
least, unless another operation uses the intermediate value. The gradients must therefore stay untouched. All values to
assign pass through a single `IdentityN`, which runs once all of them exist. Upstream of it, the optimizer sees the same
expressions as in Keras' own graph, so the step produces the same bits.

If weights, data or other models fill most of the device, there is no room for a second copy of each weight. In that
case nothing is held back, as in Keras' own step: after an out-of-memory error, some assignments may already have been
made, and only a checkpoint helps. The same goes for every step after the first wherever TensorFlow has no memory limit,
as on a CPU: holding values back there costs up to 5 % of the time, and the system kills the process before an update
could run out of memory.

Source: `MinimizeBroadcasts` and `ArithmeticNodesGroupOptimizerStage` in
tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc, which do not rewrite a node that drives a control
dependency.

Keras' own graph applies each gradient as soon as it exists, so a step that runs out of memory in its backward pass has
already changed the last layers. While a step is traced, the method with which that optimizer object applies gradients
is replaced, either by the same method behind a barrier (no assignment before every gradient exists) or by a collector
that only returns the gradients. The user's train step does not change.

Keras fetches the batch from the iterator inside the compiled function, so a failed step would lose it. Staging areas
(TensorFlow's StagingArea ops) keep references to the batch and to the values of the variables that the step writes
before its commit. Nothing is copied while the step runs, and nothing is passed to Python.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.dialects import Apply, dialect_of
from oomph.keras_bridge.graph import Slot
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_ONLY_READ = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp")


def hold_back(
    apply: Callable[[], Any], commits: tf.Variable, room_bytes: Callable[[], int | None] = lambda: None
) -> Any:
    """Trace `apply` and hold back its assignments. Returns the result of `apply`.

    Args:
        commits: incremented before the first assignment, once all values to be assigned first have been computed.
        room_bytes: returns how many bytes may be held on the device, or None for no limit; called once all variables
            exist. If the values need more, nothing is held, and `commits` is incremented once the step has its batch.
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
    """Trace `apply` so that the inputs of each assignment are computed after the previous assignment, in code order.

    TensorFlow would otherwise compute the inputs in parallel and hold the intermediate values of all variables at once,
    and memory is short when a divided batch is committed.
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
            # Add edges only forward in code order, as TensorFlow itself does between reads and writes.
            if earlier is not None and number[id(operation)] > number[id(earlier)]:
                TENSORFLOW.add_control_input.call(operation, earlier)


def _needed(writer: Any, among: dict[int, int], taken: set[int]) -> list[Any]:
    """Return a writer and every operation that must run before it, skipping those in `taken`; add them to `taken`."""
    found, remaining = [], [writer]
    while remaining:
        operation = remaining.pop()
        if id(operation) in among and id(operation) not in taken:
            taken.add(id(operation))
            found.append(operation)
            remaining += [*(tensor.op for tensor in operation.inputs), *operation.control_inputs]
    return found


def held_bytes(graph: Any) -> int:
    """Return the number of bytes that a traced step holds back."""
    return sum(_nbytes(value) for barrier, _ in _barriers(graph) for value in barrier.inputs)


def without_barriers(graph: Any) -> Any:
    """Return the GraphDef of a traced step in which each assignment waits only for the batch and its own value.

    The batch comes first, so nothing has been assigned if Keras' step finds that the data is exhausted.
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
    """Return each operation that holds values back, paired with the increment of `commits` that waits for it."""
    held = [operation for operation in graph.get_operations() if operation.type == "IdentityN"]
    users = [(operation, user) for operation in held for user in operation.outputs[-1].consumers()]
    return [(operation, user) for operation, user in users if user.type == "AssignAddVariableOp"]


def _reference(tensor: Any) -> str:
    """Return a tensor's name in the form used for node inputs."""
    return str(tensor.name).removesuffix(":0")


def _nbytes(value: Any) -> int:
    """Return the size of a tensor in bytes, or 0 if its shape is unknown."""
    return int(value.shape.num_elements() or 0) * int(value.dtype.size)


def _writers(operations: list[Any]) -> tuple[list[Any], list[tuple[Any, int]]]:
    """Return the operations that may write a variable, and those of their inputs that do not depend on such a write."""
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


Gradients = Sequence[Any]


def behind_barrier(
    optimizer: Any,
    commits: tf.Variable,
    compiled_by_xla: bool = False,
    room_bytes: Callable[[], int | None] = lambda: None,
) -> Apply:
    """Return a version of the method that applies an optimizer's gradients which waits until every gradient exists.

    `commits` is incremented after the last gradient is computed and before the first assignment. A step that fails
    before the increment has changed neither weights nor slots. A step that fails after it may have changed them.

    Args:
        commits: counts the calls to that method.
        compiled_by_xla: whether XLA compiles the traced step.
        room_bytes: returns how many bytes may be held on the device, if nothing else decides (see `hold_back`).
    """
    keras = dialect_of(optimizer)
    original = keras.apply_of(optimizer)

    def apply(grads: Gradients, trainable_variables: Any = None) -> Any:
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            keras.build_optimizer(optimizer, trainable_variables)  # variables must not depend on a step's tensors
        rest = () if trainable_variables is None else (trainable_variables,)
        alone = tf.distribute.get_replica_context().num_replicas_in_sync == 1
        if alone and not compiled_by_xla and not tf.executing_eagerly():
            return hold_back(lambda: original(grads, *rest), commits, room_bytes)
        started = tf.distribute.get_replica_context().merge_call(_counted, args=(commits, _dense_parts(grads)))
        with tf.control_dependencies([started]):
            held = [None if g is None else tf.nest.map_structure(tf.identity, g, expand_composites=True) for g in grads]
            return original(held, *rest)

    return apply


def _counted(strategy: Any, commits: tf.Variable, gradients: list[Any]) -> Any:
    """Count a commit once every replica's gradients exist; return a tensor that exists once the commit is counted."""
    everywhere = [own for gradient in gradients for own in strategy.experimental_local_results(gradient)]
    with tf.control_dependencies(everywhere):
        return tf.identity(commits.assign_add(1))


def _dense_parts(grads: Gradients) -> list[tf.Tensor]:
    return [leaf for g in grads if g is not None for leaf in tf.nest.flatten(g, expand_composites=True)]


HOST = "/CPU:0"
_names = itertools.count()


class _Area:
    """A staging area on one device for a fixed list of dtypes."""

    def __init__(self, device: str, dtypes: Sequence[tf.DType]) -> None:
        self._device, self._dtypes = device, list(dtypes)
        self._name = f"oomph_hold_{next(_names)}"

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        with tf.device(self._device):
            return TENSORFLOW.stage.value()(values=list(values), shared_name=self._name)

    def take(self) -> list[tf.Tensor] | None:
        """Remove and return the oldest item held, or None if there is none. Eager mode only."""
        with tf.device(self._device):
            if int(TENSORFLOW.stage_size.value()(dtypes=self._dtypes, shared_name=self._name)) == 0:
                return None
            return list(TENSORFLOW.unstage.value()(dtypes=self._dtypes, shared_name=self._name))

    def clear(self) -> tf.Operation:
        with tf.device(self._device):
            return TENSORFLOW.stage_clear.value()(dtypes=self._dtypes, shared_name=self._name)


class Hold:
    """The batch and state that a compiled step function holds while it runs.

    Args:
        batch_dtypes: the dtypes of the batch.
        state: variables to roll back if the step fails.
        pinned: variables whose buffers must stay alive if the step fails (see `full_batch_step.py` on XLA).
        device: where the batch stays: tf.data creates it on the host, and a strategy on the device of its replica.
    """

    def __init__(
        self,
        batch_dtypes: Sequence[tf.DType],
        state: Sequence[Slot],
        pinned: Sequence[Slot] = (),
        device: str = HOST,
    ) -> None:
        self._device = device
        self._batch_area = _Area(device, batch_dtypes) if batch_dtypes else None
        self._state = _areas_of(state)
        self._pinned = _areas_of(pinned)

    def put(self, batch: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Hold the batch and the state; return the batch's tensors, which become usable only once both are held."""
        with tf.control_dependencies(list(batch)):  # once the data is exhausted, nothing must stay held
            held = [area.put([slot.read() for slot in slots]) for area, slots in [*self._state, *self._pinned]]
        if self._batch_area is not None:
            held.append(self._batch_area.put(batch))
        with tf.control_dependencies(held), tf.device(self._device):
            return [tf.identity(tensor) for tensor in batch]

    def clear(self) -> list[tf.Operation]:
        """Add operations that release everything that is held, and return them."""
        areas = [area for area, _ in [*self._state, *self._pinned]]
        return [area.clear() for area in [*areas, *([self._batch_area] if self._batch_area else [])]]

    def take_batch(self) -> list[tf.Tensor] | None:
        """Remove and return the failed step's batch, or None if the step failed before it had one."""
        return self._batch_area.take() if self._batch_area is not None else None

    def roll_back(self) -> None:
        """Restore the small state to its values from before the failed step."""
        for area, slots in self._state:
            for slot, value in zip(slots, area.take() or [], strict=False):
                slot.assign(value)


def _areas_of(slots: Sequence[Slot]) -> list[tuple[_Area, list[Slot]]]:
    """Create one staging area for each device that has slots, paired with those slots."""
    by_device: dict[str, list[Slot]] = defaultdict(list)
    for slot in slots:
        by_device[slot.device].append(slot)
    return [(_Area(device, [slot.dtype for slot in group]), group) for device, group in by_device.items()]
