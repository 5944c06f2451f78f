"""Gives the samples of a micro-batch the random numbers that they would get in the full batch.

Keras draws with stateless operations: the numbers depend only on a seed and the shape. While a step is traced for a
micro-batch, a draw whose first dimension varies with the batch returns the micro-batch's rows of the full batch's
numbers. If the operation can begin in the middle (`philox.py`), only these rows are drawn; otherwise all rows are drawn
and sliced. The seeds are those of the full step, because every micro-batch starts from the state before the step.

Source: tensorflow/python/ops/stateless_random_ops.py, which calls the operations replaced here by these names.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.batch.micro_batch_slice import MicroBatchSlice
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.random_numbers import philox
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
    """The draws of one micro-batch: draws that vary with the batch return its rows of the full batch's numbers.

    Args:
        frame: where the micro-batch lies.
        part: the number of samples in the micro-batch.
        kinds: for each draw of the step, in order, whether it varies with the batch. Each trace refills it. Eager mode,
            where shapes do not show this, uses the result of a trace.
        compiled: whether the step will run under XLA.
    """

    def __init__(self, frame: MicroBatchSlice, part: Any, kinds: list[bool], compiled: bool = False) -> None:
        self._frame, self._part, self._kinds, self._compiled = frame, part, kinds, compiled
        self._drawn = itertools.count()
        if not tf.executing_eagerly():
            kinds.clear()

    @staticmethod
    @contextmanager
    def replaced(current: Callable[[], SlicedRandomOps | None]) -> Iterator[None]:
        """Within the block, TensorFlow's stateless operations draw for a micro-batch.

        Args:
            current: returns the draws of the micro-batch that this thread traces; None in other threads.
        """
        with ExitStack() as undo:
            for op in TENSORFLOW.stateless_random_ops:
                undo.enter_context(replaced(*op.place, while_tracing(op.value(), current, _rows)))
            yield

    def _draw(self, original: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
        shape = bound.arguments["shape"]
        number = next(self._drawn)
        if not tf.executing_eagerly():
            self._kinds.append(_goes_with_the_batch(shape))
        if number >= len(self._kinds) or not self._kinds[number]:
            return original(*bound.args, **bound.kwargs)
        shape = tf.cast(tf.convert_to_tensor(shape), tf.int32)
        # A layer may fold time into the first dimension. An empty micro-batch, of a replica without data, has no rows.
        rows = tf.math.floordiv(shape[0], tf.maximum(self._part, 1))
        if philox.draws_rows(original, bound, self._compiled):
            with tf.device("/CPU:0"):
                of_each = tf.reduce_prod(tf.cast(tf.concat([[rows], shape[1:]], axis=0), tf.int64))
                first = of_each * tf.cast(self._frame.start, tf.int64)
            return philox.rows(original, bound, first, shape)
        bound.arguments["shape"] = tf.concat([[rows * self._frame.whole], shape[1:]], axis=0)
        whole = original(*bound.args, **bound.kwargs)
        first = tf.concat([[rows * self._frame.start], tf.zeros_like(shape[1:])], axis=0)
        return tf.slice(whole, first, shape)


def _rows(mine: SlicedRandomOps, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return mine._draw(original, inspect.signature(original).bind(*args, **kwargs))


def _goes_with_the_batch(shape: Any) -> bool:
    """True if the first dimension depends on the batch size; in a trace, it is then unknown."""
    known = TENSORFLOW.constant_value_as_shape.value()(tf.convert_to_tensor(shape))
    return known.rank is not None and known.rank > 0 and known[0] is None


def draws_from_hidden_state(graph: Any) -> bool:
    """True if a traced graph, or a function that it calls, draws random numbers that cannot be drawn again."""
    return bool(hidden_draws_in(graph))


def hidden_draws_in(graph: Any) -> set[str]:
    """The operations of a traced graph, and of functions that it calls, that draw from a state inside their kernels."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return {node.op for node in nodes if node.op in STATEFUL}
