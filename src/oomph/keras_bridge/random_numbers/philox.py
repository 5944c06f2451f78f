"""Draws some rows of a tensor of random numbers, without the rest.

A dropout mask of the full batch may be larger than everything else in a micro-batch. The stateless operations number
their outputs: the Philox generator gives four 32-bit words for each count, and output number n comes from count n / 4.
So an operation with a later counter begins in the middle.

This is how TensorFlow's kernels work, but it is not documented. So an operation is used this way only after a trial: on
a small tensor, on this device, and under XLA if the step is compiled.

Source: `FillPhiloxRandomTask` in tensorflow/core/kernels/random_op_cpu.h, `FillPhiloxRandomKernel` in
random_op_gpu.h, and `PhiloxRandom::Skip` in tensorflow/core/lib/random/philox_random.h.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW

_TRIAL = (8, 5)
"""The shape of the trial's tensor. For it, XLA draws normals in pairs that lie in two halves: even first, odd last."""
_NEAR_THE_END = 2**64 - 3
"""The lower half of a counter that overflows during the trial."""
_tried: dict[tuple[Any, ...], bool] = {}


def draws_rows(original: Callable[..., Any], bound: inspect.BoundArguments, compiled: bool) -> bool:
    """True if a TensorFlow operation is known to support drawing only some rows.

    Args:
        original: the operation, such as `stateless_random_uniform_v2`.
        bound: its arguments.
        compiled: whether it will also run under XLA.
    """
    dtype, algorithm = _dtype(bound), TENSORFLOW.constant_value.value()(tf.convert_to_tensor(bound.arguments["alg"]))
    if algorithm is None or getattr(bound.arguments["counter"], "shape", None) != (2,):
        return False
    key = (original, dtype, int(algorithm), compiled)
    if key not in _tried:
        try:
            with tf.init_scope():
                _tried[key] = _try(original, dtype, int(algorithm), compiled)
        except Exception:  # no memory, no kernel: the next draw tries again
            return False
    return _tried[key]


def rows(original: Callable[..., Any], bound: inspect.BoundArguments, first: Any, shape: Any) -> Any:
    """Draw a tensor that begins in the middle of a larger one.

    Args:
        original: the operation.
        bound: its arguments; their shape is not used.
        first: int64: the number of the first output in the larger tensor.
        shape: int32: the shape of the result.
    """
    group = 16 // max(_dtype(bound).size, 4)
    with tf.device("/CPU:0"):  # the position stays on the host, as shapes do
        count, lead = first // group, tf.cast(first % group, tf.int32)
        size = tf.reduce_prod(shape)
        drawn, begin, end = size + (group - 1), tf.reshape(lead, [1]), tf.reshape(size, [1])
    later = {**bound.arguments, "shape": tf.reshape(drawn, [1]), "counter": _later(bound.arguments["counter"], count)}
    return tf.reshape(tf.slice(original(**later), begin, end), shape)


def _later(counter: Any, count: Any) -> Any:
    """The counter (uint64 [2], lower half first) plus `count`, in signed arithmetic, which every device supports."""
    low, high = tf.unstack(tf.bitcast(counter, tf.int64))
    added = low + count
    carry = tf.cast(tf.logical_and(low < 0, added >= 0), tf.int64)
    return tf.bitcast(tf.stack([added, high + carry]), tf.uint64)


def _dtype(bound: inspect.BoundArguments) -> Any:
    bound.apply_defaults()
    if "dtype" in bound.arguments:
        return tf.as_dtype(bound.arguments["dtype"])
    return tf.convert_to_tensor(bound.arguments["minval"]).dtype


def _try(original: Callable[..., Any], dtype: Any, algorithm: int, compiled: bool) -> bool:
    """True if rows drawn from any position equal those of the whole, bit by bit."""
    signature = inspect.signature(original)
    limits = {"minval": tf.constant(0, dtype), "maxval": tf.constant(99, dtype)}
    of_kind = {"dtype": dtype} if "dtype" in signature.parameters else limits

    def both(key: Any, counter: Any, first: Any) -> Any:
        of_whole = signature.bind(shape=_TRIAL, key=key, counter=counter, alg=algorithm, **of_kind)
        return original(**of_whole.arguments), rows(original, of_whole, first, tf.constant([2, 5]))

    # No argument is a constant in the trace: TensorFlow would compute the result beforehand, without XLA.
    state = tf.constant([5], tf.uint64), tf.constant([_NEAR_THE_END, 7], tf.uint64)
    for run in (both, tf.function(both, jit_compile=True)) if compiled else (both,):
        for first in range(0, 31, 5):
            whole, part = run(*state, tf.constant(first, tf.int64))
            expected = tf.reshape(whole, [-1])[first : first + 10]
            if not np.array_equal(expected.numpy(), tf.reshape(part, [-1]).numpy()):
                return False
    return True
