"""MicroBatchSlice: where a micro-batch lies in its batch, as tensors that a traced step can compute with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf


class MicroBatchSlice(NamedTuple):
    """The place of a micro-batch in its batch. Fields are tensors on the host, so a new place needs no new trace."""

    share: Any
    """float64: samples of the micro-batch / samples of the batch."""
    start: Any
    """int32: the index of the micro-batch's first sample in its batch."""
    whole: Any
    """int32: the number of samples in the batch."""
    divisors: Any
    """float64 [K]: the full-batch divisor of each reduction whose divisor depends on the data."""
    summed: Any
    """float64 [J]: for each term of the loss that is a plain number, 1 if it is a sum over samples, 0 if a mean."""

    @classmethod
    def of(cls, start: int, part: int, whole: int, divisors: Any = (), summed: Any = ()) -> MicroBatchSlice:
        """The slice of `part` samples from index `start` on, in a batch of `whole` samples."""
        with tf.device("/CPU:0"):
            return cls(
                tf.constant(part / whole if whole else 0.0, tf.float64),
                tf.constant(start, tf.int32),
                tf.constant(whole, tf.int32),
                tf.constant(np.asarray(divisors, np.float64)),
                tf.constant(np.asarray(summed, np.float64)),
            )

    @staticmethod
    def specs() -> MicroBatchSlice:
        """The signature of a function that takes any slice."""
        vector = tf.TensorSpec([None], tf.float64)
        number = tf.TensorSpec([], tf.int32)
        return MicroBatchSlice(tf.TensorSpec([], tf.float64), number, number, vector, vector)
