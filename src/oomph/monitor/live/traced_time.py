"""TracedTime: adds up how long something takes in traced functions, by timestamps that are traced along with it.

TensorFlow rejects timestamps while its operations must be deterministic (`enable_op_determinism`). Functions traced in
that mode are not measured, and those traced earlier stop requesting the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.graph import leave_out
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_may_ask: Any = None
"""A variable on the CPU that is True if traced functions may request the time."""


class TracedTime:
    """The time that one kind of operation has taken in this process, in a variable on the CPU.

    All trainings share it, since a step traced in one is also used in the next.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._seconds: Any = None

    def read(self) -> float:
        """Return the time so far, in seconds. Only differences are meaningful."""
        return 0.0 if self._seconds is None else float(self._seconds.numpy())

    def begin(self, after: Sequence[Any] = ()) -> Any:
        """Return the time in seconds once these tensors are computed, as a graph tensor on the CPU."""
        global _may_ask
        if _may_ask is None:
            _may_ask = _on_the_cpu(True, tf.bool, "oomph_may_ask_for_the_time")
        if self._seconds is None:
            self._seconds = _on_the_cpu(0.0, tf.float64, self._name)
        return _time(after)

    def end(self, began: Any, after: Sequence[Any]) -> Any:
        """Add the time from `began` until these tensors are computed; return the operation."""
        with tf.device("/CPU:0"):
            return self._seconds.assign_add(_time([began, *after]) - began, read_value=False)


def can_ask() -> bool:
    """True if a function that is now traced may request the time."""
    return not TENSORFLOW.is_deterministic.value()()


def ask_no_more() -> None:
    """Stop requesting the time in functions that have been traced."""
    if _may_ask is not None:
        _may_ask.assign(False)


def _time(after: Sequence[Any]) -> Any:
    with tf.device("/CPU:0"), tf.control_dependencies([*after]):
        return tf.cond(_may_ask.read_value(), tf.timestamp, lambda: tf.zeros([], tf.float64))


def _on_the_cpu(value: Any, dtype: Any, name: str) -> Any:
    with tf.init_scope(), tf.device("/CPU:0"):
        # Not a `tf.Variable`, which a distribution strategy would mirror on each of its devices.
        variable = TENSORFLOW.resource_variable.value()(value, trainable=False, name=name, dtype=dtype)
    leave_out(variable)
    return variable
