"""Iterations of a loop in a graph: their number, and the data they keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from oomph.planning.live.scalars import Number, number_of

_UNKNOWN_TRIPS = 32
"""The number of iterations to assume if the graph does not determine it."""


def iterations(goes_on: Any, body: Any, numbers: Sequence[Number | None], most: int) -> int | None:
    """The number of iterations of a loop; None if constants do not determine it, or if it exceeds `most`."""
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
    """The probable number of iterations of a loop, and True if the graph determines it."""
    for tensor in list(operation.inputs)[:3]:
        value = tf.get_static_value(tensor)
        if value is None and tensor.op.type == "Max":  # Keras' way to say how many steps the longest sequence has
            value = tf.get_static_value(tensor.op.inputs[0])
            value = None if value is None else value.max()
        if value is not None and value.ndim == 0 and value.dtype.kind == "i" and value > 1:
            return int(value), True
    return _UNKNOWN_TRIPS, False


def kept_by_each(body: Any) -> dict[int, int]:
    """The bytes that one iteration adds to each list, by the index of the list's loop variable."""
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
