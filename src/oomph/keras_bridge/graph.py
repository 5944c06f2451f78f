"""Inspects traced functions (the variables they write, what their tensors depend on) and copies them to other graphs.

Keras' own graph of a step is flat. TensorFlow's graph optimizer inlines function calls, but adds control dependencies
around them that prevent rewrites which the flat graph would allow. Sums and products are then computed in a different
order, and the last bits differ.

Source: `InlineFunctionBody` in tensorflow/core/common_runtime/inline_function_utils.cc, which ties every operation
without an input to a control node; tensorflow/core/grappler/optimizers/arithmetic_optimizer.cc.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW


def compiled(function: Callable[..., Any], jit_compile: bool | None = None) -> Any:
    """Wrap the function in a `tf.function` that traces it unchanged, without AutoGraph.

    TensorFlow warns about functions that are traced repeatedly, and treats functions of different objects as one if
    they share the same code. It does not look inside a `partial`.
    """
    untouched = tf.autograph.experimental.do_not_convert(function)
    return tf.function(functools.partial(untouched), reduce_retracing=True, jit_compile=jit_compile)


_ONE_BY_ONE = 12
"""Up to this many variables are read faster one by one than with a compiled function, whose call takes 150 µs."""


def tensorflow_variable(variable: Any) -> Any:
    """Return the `tf.Variable` behind a Keras variable, or the variable itself."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def components(variable: Any) -> list[Any]:
    """Return the components of a variable: one per replica if a strategy keeps copies, otherwise just one."""
    value = tensorflow_variable(variable)
    return list(value.values) if isinstance(value, tf.distribute.DistributedValues) else [value]


def differs_by_replica(variable: Any) -> bool:
    """True if each replica keeps its own value, as for a metric's sums and for moving averages.

    For some of these variables, TensorFlow shows the mean or sum of the values (`SyncOnReadVariable` in
    tensorflow/python/distribute/values.py). For others it shows the first value: non-trainable variables of Keras 3
    layers, which each replica assigns independently.
    """
    value = tensorflow_variable(variable)
    if any(kind.__name__ == "SyncOnReadVariable" for kind in type(value).__mro__):
        return True
    alone = getattr(value, "aggregation", None) == tf.VariableAggregation.NONE
    return isinstance(value, tf.distribute.DistributedValues) and alone and not getattr(variable, "trainable", True)


def handles_of(variables: Iterable[Any]) -> set[int]:
    """Return the ids of the variables' resource handles, for every replica."""
    return {id(component.handle) for variable in variables for component in components(variable)}


@dataclass(frozen=True, eq=False)
class Slot:
    """One variable, accessed through its resource handle, with its dtype and device."""

    handle: Any
    dtype: tf.DType
    device: str
    distributed: Any = None
    """The variable itself if a strategy keeps copies of it, since the strategy then reads and assigns all of them."""

    @classmethod
    def of(cls, variable: Any) -> Slot:
        """Create the slot for a `tf.Variable` or a Keras variable."""
        value = tensorflow_variable(variable)
        distributed = value if isinstance(value, tf.distribute.DistributedValues) else None
        first = components(variable)[0]
        return cls(first.handle, value.dtype, first.device, distributed)

    @classmethod
    def each_of(cls, variables: Iterable[Any]) -> list[Slot]:
        """Create slots for variables, one per replica, for use in a rollback."""
        found = [component for variable in variables for component in components(variable)]
        return [cls(component.handle, component.dtype, component.device) for component in found]

    @property
    def nbytes(self) -> int:
        """The size of the variable's value in bytes."""
        shape = tf.TensorShape(TENSORFLOW.handle_data.of(self.handle).shape_and_type[0].shape)
        return int(self.dtype.size) * int(shape.num_elements() or 0)

    def read(self) -> tf.Tensor:
        """Read the variable's value; in a graph, before later writes to the same variable."""
        if self.distributed is not None:
            return tf.convert_to_tensor(self.distributed.read_value())
        with tf.device(self.device):
            return TENSORFLOW.read_variable.value()(self.handle, self.dtype)

    def assign(self, value: Any) -> None:
        """Assign a value to the variable."""
        if self.distributed is not None:
            self.distributed.assign(value)
            return
        with tf.device(self.device):
            TENSORFLOW.assign_variable.value()(self.handle, value)


_measures: list[Any] = []
"""The variables that oomph itself adds to traced functions, for its measurements."""


def leave_out(variable: Any) -> None:
    """Do not count a variable of oomph's own as state from now on: it is neither saved nor restored."""
    _measures.append(variable)


def written_slots(function: Any, besides: Iterable[Any]) -> list[Slot]:
    """Return the variables that the concrete `function` writes, except those in `besides`.

    The variable by which a strategy orders its collective operations (`_ordering_token` in
    tensorflow/python/distribute/cross_device_utils.py) has no value of its own, and is not one of them.

    TensorFlow determines which captured resources a graph only reads, so that readers can run in parallel
    (tensorflow/python/framework/auto_control_deps_utils.py). All other resources count as written.
    """
    excluded = handles_of([*besides, *_measures])
    read_only = set(TENSORFLOW.read_only_inputs.value()(function.graph))
    positions = {id(tensor): index for index, tensor in enumerate(function.graph.inputs)}
    slots = []
    captured = function.graph.internal_captures  # a strategy's collective keys (not variables) follow
    for inner, outer in zip(captured, function.captured_inputs, strict=False):
        if outer.dtype != tf.resource or positions[id(inner)] in read_only or id(outer) in excluded:
            continue
        if {user.type for user in inner.consumers()} == {_COLLECTIVE}:
            continue
        dtype = _variable_dtype(outer)
        if dtype is not None:
            slots.append(Slot(outer, dtype, outer.device))
    return slots


def _variable_dtype(handle: Any) -> tf.DType | None:
    """Return the dtype of the variable behind a handle, or None for other resources, such as tables and iterators."""
    data = TENSORFLOW.handle_data.get(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.as_dtype(data.shape_and_type[0].dtype)


class SmallState:
    """The values of a few variables, saved before a step and restored after a failure, without copying buffers."""

    def __init__(self, slots: list[Slot]) -> None:
        self.slots = slots
        self._read = compiled(lambda: [slot.read() for slot in slots])

    def snapshot(self) -> list[tf.Tensor]:
        """Return the current values. Later writes do not change them, since TensorFlow copies on write."""
        if len(self.slots) <= _ONE_BY_ONE:
            return [slot.read() for slot in self.slots]
        return list(self._read())

    def restore(self, values: list[tf.Tensor]) -> None:
        """Restore the values from a snapshot."""
        for slot, value in zip(self.slots, values, strict=True):
            slot.assign(value)


_COLLECTIVE = "CollectiveReduceV2"
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarHandleOp")
_DIVISIONS = ("RealDiv", "DivNoNan", "Div")
_SAME_NUMBER = ("Identity", "Cast", "Reshape", "Squeeze", "Mean", "Sum")
"""Operations that pass a single number on unchanged."""


class OnBatch:
    """Decides which tensors may differ between micro-batches.

    The size of a sample does not differ: only the first dimension varies with the number of samples. A kernel's
    internal state, such as its random numbers, does differ. Variables do not, since every micro-batch starts from the
    same values.

    Args:
        batch: the tensors of the batch, and anything else that differs between micro-batches.
    """

    def __init__(self, batch: Sequence[Any]) -> None:
        self._batch = {id(tensor) for tensor in batch}

    def __call__(self, tensor: Any) -> bool:
        """True if a tensor may differ between micro-batches."""
        return _reaches(tensor, lambda each: id(each) in self._batch or _keeps_to_itself(each), _is_size_of_a_sample)


def is_symbolic(value: Any) -> bool:
    """True if this is a tensor of a graph. TensorFlow has a function for that since 2.13."""
    return isinstance(value, tf.Tensor) and not hasattr(value, "numpy")


def divisor_in_data(number: Any) -> Any:
    """Return the divisor of a sum in a traced number if it depends on the data but not on variables; otherwise None.

    Such a number is a mean over something counted, such as the valid tokens in a batch.
    """
    if not is_symbolic(number):
        return None
    number = _behind_the_same(number)
    if number.op.type not in _DIVISIONS:
        return None
    numerator, divisor = number.op.inputs
    is_constant = not _reaches(divisor, lambda each: each.op.type == "Placeholder" and each.dtype != tf.resource)
    if _behind_the_same(numerator).op.type != "Sum" or divisor.shape.rank != 0 or is_constant:
        return None
    return None if _reaches(divisor, lambda each: each.dtype == tf.resource or _keeps_to_itself(each)) else divisor


def _behind_the_same(number: Any) -> Any:
    """Return the tensor that this single number comes from, skipping operations that pass it on unchanged."""
    while number.op.type in _SAME_NUMBER and number.op.inputs[0].shape.rank == 0:
        number = number.op.inputs[0]
    return number


def _reaches(tensor: Any, found: Callable[[Any], bool], stops: Callable[[Any], bool] = lambda each: False) -> bool:
    """True if a tensor depends on one that `found` matches, without searching beyond those that `stops` matches."""
    waiting, seen = [tensor], set()
    while waiting:
        each = waiting.pop()
        if found(each):
            return True
        if each.op.name not in seen and not stops(each):
            seen.add(each.op.name)
            waiting += each.op.inputs
    return False


def _keeps_to_itself(tensor: Any) -> bool:
    """True if the kernel has its own state, or calls external code such as Python."""
    definition = tensor.op.op_def
    return definition is not None and definition.is_stateful and tensor.op.type not in _READS


def _is_size_of_a_sample(tensor: Any) -> bool:
    """True if this is the size of some tensor's dimension other than the first."""
    if tensor.op.type != "StridedSlice" or tensor.op.inputs[0].op.type != "Shape":
        return False
    begin, rank = tf.get_static_value(tensor.op.inputs[1]), tensor.op.inputs[0].op.inputs[0].shape.rank
    if begin is None or rank is None or not tensor.op.get_attr("shrink_axis_mask"):
        return False
    return bool(int(begin[0]) % rank > 0)


def inlined(concrete: Any, definition: Any = None) -> Callable[..., Any]:
    """Return a function with the same arguments that copies the operations of `concrete` into the current graph.

    Args:
        concrete: a concrete function that accepts a nest of tensors.
        definition: a GraphDef to copy instead, whose operations have the same names.
    """
    traced = concrete.graph
    definition = definition or traced.as_graph_def(add_shapes=True)
    count = len(traced.inputs) - len(traced.internal_captures) - len(TENSORFLOW.late_captures.get(traced, ()))
    arguments, captures = traced.inputs[:count], traced.inputs[count:]
    runs = [operation.name for operation in traced.control_outputs]

    def copied(*values: Any) -> Any:
        graph = TENSORFLOW.default_graph.value()()
        given = [leaf for leaf in tf.nest.flatten(values, expand_composites=True) if leaf is not None]
        fed = {a.name: value for a, value in zip(arguments, given, strict=True)}
        fed |= {c.name: graph.capture(outer) for c, outer in zip(captures, concrete.captured_inputs, strict=True)}
        wanted = [tensor.name for tensor in traced.outputs]
        found = TENSORFLOW.import_graph_def.value()(
            definition, input_map=fed, return_elements=[*wanted, *runs], name=""
        )
        results, done = found[: len(wanted)], found[len(wanted) :]
        with tf.control_dependencies(done):
            results = [tf.identity(tensor) for tensor in results]
        return _packed(concrete, results)

    return copied


def _packed(concrete: Any, results: list[Any]) -> Any:
    """Pack the tensors into the structure that the function returned."""
    leaves = iter(results)
    flat = tf.nest.flatten(concrete.structured_outputs, expand_composites=True)
    filled = [next(leaves) if isinstance(leaf, (tf.Tensor, tf.TypeSpec)) else leaf for leaf in flat]
    return tf.nest.pack_sequence_as(concrete.structured_outputs, filled, expand_composites=True)
