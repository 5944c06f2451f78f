"""Numbers in a graph that constants alone determine: loop counters, their limits, indices."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, cast

import tensorflow as tf

Number = int | float | bool
_SAME = frozenset({"Identity", "StopGradient", "Snapshot"})
_OF_TWO: Mapping[str, Callable[[Any, Any], Number]] = {
    "Add": operator.add, "AddV2": operator.add, "Sub": operator.sub, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "FloorMod": operator.mod, "Maximum": max, "Minimum": min, "Less": operator.lt, "LessEqual": operator.le,
    "Greater": operator.gt, "GreaterEqual": operator.ge, "Equal": operator.eq, "NotEqual": operator.ne,
    "LogicalAnd": lambda one, other: bool(one and other), "LogicalOr": lambda one, other: bool(one or other),
}  # fmt: skip
_OF_ARRAYS: Mapping[str, Callable[[Any], Any]] = {"Max": lambda array: array.max(), "Min": lambda array: array.min()}


def number_of(tensor: Any, given: Mapping[Any, Number]) -> Number | None:
    """The value of a scalar; None if constants do not determine it.

    Args:
        tensor: a tensor in a function's graph.
        given: values already known, such as the function's arguments, by `tensor.ref()`.
    """
    known = given.get(tensor.ref())
    if known is not None:
        return known
    operation = tensor.op
    if operation.type in _SAME:
        return number_of(operation.inputs[0], given)
    if operation.type in _OF_TWO:
        values = [number_of(one, given) for one in operation.inputs]
        return None if None in values else _OF_TWO[operation.type](*values)
    if operation.type == "LogicalNot":
        value = number_of(operation.inputs[0], given)
        return None if value is None else not value
    return _constant(operation, tensor)


def _constant(operation: Any, tensor: Any) -> Number | None:
    if operation.type in _OF_ARRAYS:  # Keras' way to say how many steps the longest sequence has
        array = tf.get_static_value(operation.inputs[0])
        return None if array is None or not array.size else cast("Number", _OF_ARRAYS[operation.type](array).item())
    value = tf.get_static_value(tensor) if operation.type == "Const" else None
    if value is None or getattr(value, "ndim", 1) != 0 or value.dtype.kind not in "ifb":
        return None
    return cast("Number", value.item())
