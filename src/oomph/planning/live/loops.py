"""Evaluates numbers in a graph that depend only on constants, and counts the iterations of its loops."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
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
_UNKNOWN_TRIPS = 32
"""The number of iterations to assume if the graph does not determine it."""


def number_of(tensor: Any, given: Mapping[Any, Number]) -> Number | None:
    """Return the value of a scalar, or None if constants do not determine it.

    Args:
        tensor: a tensor in a function's graph.
        given: values already known, such as the function's arguments, keyed by `tensor.ref()`.
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
    if operation.type in _OF_ARRAYS:  # Keras computes the longest sequence's length this way
        array = tf.get_static_value(operation.inputs[0])
        return None if array is None or not array.size else cast("Number", _OF_ARRAYS[operation.type](array).item())
    value = tf.get_static_value(tensor) if operation.type == "Const" else None
    if value is None or getattr(value, "ndim", 1) != 0 or value.dtype.kind not in "ifb":
        return None
    return cast("Number", value.item())


def iterations(goes_on: Any, body: Any, numbers: Sequence[Number | None], most: int) -> int | None:
    """Return the number of iterations of a loop, or None if constants do not determine it or it exceeds `most`."""
    for count in range(most + 1):
        is_next = number_of(goes_on.outputs[0], _numbers(goes_on, numbers)) if goes_on is not None else None
        if is_next is None:
            return None
        if not is_next:
            return count
        inside = _numbers(body, numbers)
        numbers = [number_of(result, inside) for result in body.outputs]
    return None


def _numbers(function: Any, values: Sequence[Number | None]) -> dict[Any, Number]:
    pairs = zip(function.inputs, values, strict=False)
    return {placeholder.ref(): value for placeholder, value in pairs if value is not None}


def assumed_iterations(operation: Any) -> tuple[int, bool]:
    """Return the probable number of iterations of a loop, and True if the graph determines it."""
    for tensor in list(operation.inputs)[:3]:
        value = tf.get_static_value(tensor)
        if value is None and tensor.op.type == "Max":  # Keras computes the longest sequence's length this way
            value = tf.get_static_value(tensor.op.inputs[0])
            value = None if value is None else value.max()
        if value is not None and value.ndim == 0 and value.dtype.kind == "i" and value > 1:
            return int(value), True
    return _UNKNOWN_TRIPS, False


def kept_by_each(body: Any) -> dict[int, int]:
    """Return the number of bytes that one iteration adds to each list, keyed by the list's loop variable index."""
    added: dict[int, int] = {}
    for index, result in enumerate(body.outputs):
        operation = result.op
        while operation.type in ("Identity", "TensorListPushBack", "TensorListSetItem"):
            if operation.type != "Identity":
                item = operation.inputs[-1]
                if item.op.type == "ReadVariableOp" or item.dtype.name in ("resource", "variant"):
                    operation = operation.inputs[0].op
                    continue
                added[index] = added.get(index, 0) + int(item.shape.num_elements() or 0) * (item.dtype.size or 1)
            operation = operation.inputs[0].op
    return added
