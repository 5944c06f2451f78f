"""Looks for weights that are not finite. A ReLU hides NaN from the loss, so the loss alone does not show them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.runtime.errors import handled

_COST = 200
"""A look may take one part in so many of the time: 0.5 %."""
_LEAST_SECONDS = 2.0


class WeightLooks:
    """Looks at the trainable weights now and then, as often as the cost of a look allows."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._due = clock()
        self._is_first = True
        """Whether the next look is the first, which costs more than those after it."""

    def look(self, weights: Sequence[Any]) -> int | None:
        """How many numbers are NaN or infinite; None if no look is due, or memory is too short for one."""
        began = self._clock()
        if began < self._due:
            return None
        self._due = math.inf
        with handled():
            try:
                found = not_finite(weights)
            except tf.errors.ResourceExhaustedError:
                return None  # and none later either: the training needs the memory
        ended = self._clock()
        self._due = ended + max(_LEAST_SECONDS, 0.0 if self._is_first else _COST * (ended - began))
        self._is_first = False
        return found


def not_finite(weights: Sequence[Any]) -> int:
    """How many numbers of the weights are NaN or infinite.

    The sum of a tensor is not finite if one of its numbers is not, and needs no memory of the size of the tensor. Only
    where a sum is not finite, which may also be an overflow, the numbers are counted one by one on the host.
    """
    values = [tf.convert_to_tensor(weight) for weight in weights]
    floats = [value for value in values if value.dtype.is_floating]
    if not floats:
        return 0
    sums = tf.stack([tf.cast(tf.reduce_sum(value), tf.float64) for value in floats])
    suspect = ~np.isfinite(sums.numpy())
    return sum(_count(value) for value, is_suspect in zip(floats, suspect, strict=True) if is_suspect)


def _count(value: Any) -> int:
    return int(np.count_nonzero(~np.isfinite(value.numpy().astype(np.float64))))
