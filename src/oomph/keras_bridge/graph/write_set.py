"""Finds the variables that a traced function writes, from its graph: also variables that the model does not list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.graph.compiled import compiled
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_ONE_BY_ONE = 12
"""Up to this many variables are read faster one by one than by a compiled function, whose call takes about 150 µs."""


def tensorflow_variable(variable: Any) -> Any:
    """The `tf.Variable` behind a Keras variable, or the variable itself."""
    return variable if isinstance(variable, tf.Variable) else variable.value


def components(variable: Any) -> list[Any]:
    """The variables behind one variable: one per replica if a strategy keeps copies, otherwise one."""
    value = tensorflow_variable(variable)
    return list(value.values) if isinstance(value, tf.distribute.DistributedValues) else [value]


def differs_by_replica(variable: Any) -> bool:
    """True if each replica keeps its own value, as for the sums of a metric and for moving averages.

    For some, TensorFlow shows their mean or sum (`SyncOnReadVariable` in tensorflow/python/distribute/values.py). For
    others it shows the first value: non-trainable variables of Keras 3 layers, which each replica assigns on its own.
    """
    value = tensorflow_variable(variable)
    if any(kind.__name__ == "SyncOnReadVariable" for kind in type(value).__mro__):
        return True
    alone = getattr(value, "aggregation", None) == tf.VariableAggregation.NONE
    return isinstance(value, tf.distribute.DistributedValues) and alone and not getattr(variable, "trainable", True)


def handles_of(variables: Iterable[Any]) -> set[int]:
    """The identities of the resource handles of variables, for every replica."""
    return {id(component.handle) for variable in variables for component in components(variable)}


@dataclass(frozen=True, eq=False)
class Slot:
    """One variable, accessed through its resource handle, with its dtype and device."""

    handle: Any
    dtype: tf.DType
    device: str
    distributed: Any = None
    """The variable itself if a strategy keeps copies of it: the strategy then reads and assigns all of them."""

    @classmethod
    def of(cls, variable: Any) -> Slot:
        """The slot of a `tf.Variable` or a Keras variable."""
        value = tensorflow_variable(variable)
        distributed = value if isinstance(value, tf.distribute.DistributedValues) else None
        first = components(variable)[0]
        return cls(first.handle, value.dtype, first.device, distributed)

    @classmethod
    def each_of(cls, variables: Iterable[Any]) -> list[Slot]:
        """The slots of variables, one per replica, for a rollback to set."""
        found = [component for variable in variables for component in components(variable)]
        return [cls(component.handle, component.dtype, component.device) for component in found]

    @property
    def nbytes(self) -> int:
        """The size of the variable's value in bytes."""
        shape = tf.TensorShape(TENSORFLOW.handle_data.of(self.handle).shape_and_type[0].shape)
        return int(self.dtype.size) * int(shape.num_elements() or 0)

    def read(self) -> tf.Tensor:
        """Read the variable's value; in a graph, before later writes of the same variable."""
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


def written_slots(function: Any, besides: Iterable[Any]) -> list[Slot]:
    """The variables that the concrete `function` writes, except those in `besides`.

    TensorFlow derives which captured resources a graph only reads, so that readers can run in parallel
    (tensorflow/python/framework/auto_control_deps_utils.py). All others count as written.
    """
    excluded = handles_of(besides)
    read_only = set(TENSORFLOW.read_only_inputs.value()(function.graph))
    positions = {id(tensor): index for index, tensor in enumerate(function.graph.inputs)}
    slots = []
    captured = function.graph.internal_captures  # a strategy's collective keys (not variables) come after them
    for inner, outer in zip(captured, function.captured_inputs, strict=False):
        if outer.dtype != tf.resource or positions[id(inner)] in read_only or id(outer) in excluded:
            continue
        dtype = _variable_dtype(outer)
        if dtype is not None:
            slots.append(Slot(outer, dtype, outer.device))
    return slots


def _variable_dtype(handle: Any) -> tf.DType | None:
    """The dtype of the variable behind a handle; None for other resources such as tables and iterators."""
    data = TENSORFLOW.handle_data.get(handle)
    if data is None or not data.is_set or len(data.shape_and_type) != 1:
        return None
    return tf.as_dtype(data.shape_and_type[0].dtype)


class SmallState:
    """The values of a few variables, saved before a step and restored after a failure. No buffer is copied."""

    def __init__(self, slots: list[Slot]) -> None:
        self.slots = slots
        self._read = compiled(lambda: [slot.read() for slot in slots])

    def snapshot(self) -> list[tf.Tensor]:
        """The current values. A later write of a variable does not change them (TensorFlow copies on write)."""
        if len(self.slots) <= _ONE_BY_ONE:
            return [slot.read() for slot in self.slots]
        return list(self._read())

    def restore(self, values: list[tf.Tensor]) -> None:
        """Write the values of a snapshot back."""
        for slot, value in zip(self.slots, values, strict=True):
            slot.assign(value)
