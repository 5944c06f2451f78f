"""Gives the samples of a micro-batch the random numbers that they would get in the full batch.

Keras uses stateless random operations: the numbers depend only on a seed and the shape. While a step is traced for a
micro-batch, a draw whose first dimension varies with the batch returns the micro-batch's rows of the full batch's
numbers. If the operation can start in the middle, only these rows are drawn; otherwise all rows are drawn and sliced.
The seeds are those of the full step, because every micro-batch starts from the state before the step.

Source: tensorflow/python/ops/stateless_random_ops.py, which calls the operations replaced here under these names.

The full batch's dropout mask may be larger than everything else in a micro-batch. The stateless operations number their
outputs: the Philox generator produces four 32-bit words per count, so output number n comes from count n / 4. An
operation that starts at a later count starts in the middle.

This is how TensorFlow's kernels work, but it is not documented. An operation is therefore used this way only after a
trial: on a small tensor, on this device, and under XLA if the step is compiled.

Source: `FillPhiloxRandomTask` in tensorflow/core/kernels/random_op_cpu.h, `FillPhiloxRandomKernel` in random_op_gpu.h,
and `PhiloxRandom::Skip` in tensorflow/core/lib/random/philox_random.h.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.patching import replaced, while_tracing

STATEFUL = frozenset(
    (
        "AllCandidateSampler",
        "FixedUnigramCandidateSampler",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "ThreadUnsafeUnigramCandidateSampler",
        "UniformCandidateSampler",
        "RandomCrop",
        "RandomUniform",
        "RandomUniformInt",
        "RandomStandardNormal",
        "TruncatedNormal",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomShuffle",
        "Multinomial",
        "RandomPoisson",
        "RandomPoissonV2",
        "SampleDistortedBoundingBox",
        "SampleDistortedBoundingBoxV2",
    )
)
"""Operations that draw from a state inside TensorFlow's kernels, which cannot be restored."""


class SlicedRandomOps:
    """Makes draws that vary with the batch return a micro-batch's rows of the full batch's random numbers.

    Args:
        frame: the position of the micro-batch in the batch.
        part: the number of samples in the micro-batch.
        kinds: for each draw in the step, in order, whether it varies with the batch. Each trace refills the list. In
            eager mode, where shapes do not reveal this, the result of a trace is used.
        compiled: whether the step will run under XLA.
    """

    def __init__(self, frame: MicroBatchSlice, part: Any, kinds: list[bool], compiled: bool = False) -> None:
        self._frame, self._part, self._kinds, self._compiled = frame, part, kinds, compiled
        self._drawn = itertools.count()
        self._varied = False
        """True if the last draw varied with the batch."""
        if not tf.executing_eagerly():
            kinds.clear()

    @staticmethod
    @contextmanager
    def replaced(current: Callable[[], SlicedRandomOps | None]) -> Iterator[None]:
        """Within the block, make TensorFlow's stateless operations draw for a micro-batch.

        Args:
            current: returns the draws of the micro-batch that this thread is tracing, or None in other threads.
        """
        with ExitStack() as undo:
            for op in TENSORFLOW.stateless_random_ops:
                undo.enter_context(replaced(*op.place, while_tracing(op.value(), current, _rows)))
            yield

    def counts_of_whole(self, counts: Any) -> Any:
        """Return the number of counts that the last draw would have used in the full batch, given those it used."""
        if not self._varied:
            return counts
        part, whole = (tf.cast(number, counts.dtype) for number in (tf.maximum(self._part, 1), self._frame.whole))
        return counts // part * whole

    def _draw(self, original: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        shape = bound.arguments["shape"]
        number = next(self._drawn)
        if not tf.executing_eagerly():
            self._kinds.append(_goes_with_the_batch(shape))
        self._varied = number < len(self._kinds) and self._kinds[number]
        if not self._varied:
            return original(*bound.args, **bound.kwargs)
        shape = tf.cast(tf.convert_to_tensor(shape), tf.int32)
        # A layer may fold time into the first dimension. An empty micro-batch, on a replica without data, has no rows.
        rows = tf.math.floordiv(shape[0], tf.maximum(self._part, 1))
        if draws_rows(original, bound, self._compiled):
            with tf.device("/CPU:0"):
                of_each = tf.reduce_prod(tf.cast(tf.concat([[rows], shape[1:]], axis=0), tf.int64))
                first = of_each * tf.cast(self._frame.start, tf.int64)
            return drawn_rows(original, bound, first, shape)
        bound.arguments["shape"] = tf.concat([[rows * self._frame.whole], shape[1:]], axis=0)
        whole = original(*bound.args, **bound.kwargs)
        first = tf.concat([[rows * self._frame.start], tf.zeros_like(shape[1:])], axis=0)
        return tf.slice(whole, first, shape)


def _rows(mine: SlicedRandomOps, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return mine._draw(original, inspect.signature(original).bind(*args, **kwargs))


def _goes_with_the_batch(shape: Any) -> bool:
    """True if the first dimension depends on the batch size, that is, if it is unknown in a trace."""
    known = TENSORFLOW.constant_value_as_shape.value()(tf.convert_to_tensor(shape))
    return known.rank is not None and known.rank > 0 and known[0] is None


def draws_from_hidden_state(graph: Any) -> bool:
    """True if a traced graph, or a function that it calls, draws random numbers that cannot be drawn again."""
    return bool(hidden_draws_in(graph))


def hidden_draws_in(graph: Any) -> set[str]:
    """Return the operations in a traced graph and the functions it calls that draw from a state inside kernels."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return {node.op for node in nodes if node.op in STATEFUL}


_TRIAL = (8, 5)
"""The trial tensor's shape. For it, XLA draws normals in pairs split over two halves: even first, odd last."""
_NEAR_THE_END = 2**64 - 3
"""The lower half of a counter that overflows during the trial."""
_tried: dict[tuple[Any, ...], bool] = {}


def draws_rows(original: Callable[..., Any], bound: inspect.BoundArguments, compiled: bool) -> bool:
    """True if a TensorFlow operation is known to support drawing only some of the rows.

    Args:
        original: the operation, such as `stateless_random_uniform_v2`.
        compiled: whether the operation will also run under XLA.
    """
    dtype, algorithm = _dtype(bound), TENSORFLOW.constant_value.value()(tf.convert_to_tensor(bound.arguments["alg"]))
    if algorithm is None or getattr(bound.arguments["counter"], "shape", None) != (2,):
        return False
    key = (original, dtype, int(algorithm), compiled)
    if key not in _tried:
        try:
            with tf.init_scope():
                _tried[key] = _try(original, dtype, int(algorithm), compiled)
        except Exception:  # no memory or no kernel: the next draw tries again
            return False
    return _tried[key]


def drawn_rows(original: Callable[..., Any], bound: inspect.BoundArguments, first: Any, shape: Any) -> Any:
    """Draw a tensor that starts in the middle of a larger one.

    Args:
        bound: the operation's arguments, whose shape is ignored.
        first: int64: the index of the result's first element in the larger tensor.
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
    """Add `count` to the counter (uint64 [2], lower half first), in signed arithmetic, which every device supports."""
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
    """True if rows drawn from any position match the same rows of the whole, bit for bit."""
    signature = inspect.signature(original)
    limits = {"minval": tf.constant(0, dtype), "maxval": tf.constant(99, dtype)}
    of_kind = {"dtype": dtype} if "dtype" in signature.parameters else limits

    def both(key: Any, counter: Any, first: Any) -> Any:
        of_whole = signature.bind(shape=_TRIAL, key=key, counter=counter, alg=algorithm, **of_kind)
        return original(**of_whole.arguments), drawn_rows(original, of_whole, first, tf.constant([2, 5]))

    # Pass no constants to the traced function: TensorFlow would compute the result beforehand, without XLA.
    state = tf.constant([5], tf.uint64), tf.constant([_NEAR_THE_END, 7], tf.uint64)
    for run in (both, tf.function(both, jit_compile=True)) if compiled else (both,):
        for first in range(0, 31, 5):
            whole, part = run(*state, tf.constant(first, tf.int64))
            expected = tf.reshape(whole, [-1])[first : first + 10]
            if not np.array_equal(expected.numpy(), tf.reshape(part, [-1]).numpy()):
                return False
    return True
