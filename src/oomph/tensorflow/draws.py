"""The random numbers of a micro-batch: those that its samples would have got in the whole batch.

Keras draws with stateless operations: the numbers depend on a seed and on the shape alone. While a step is traced for
a part, a draw whose first dimension goes with the batch is made for the whole batch, and the rows of the part are
taken. The seeds are those of the whole step, because every part starts from the state that the step started from.

Source: tensorflow/python/ops/stateless_random_ops.py, which calls the operations replaced here by these names.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_stateless_random_ops_v2

from oomph.tensorflow.frame import Frame

_BY_SHAPE = (
    (gen_stateless_random_ops_v2, "stateless_random_uniform_v2"),
    (gen_stateless_random_ops_v2, "stateless_random_uniform_int_v2"),
    (gen_stateless_random_ops_v2, "stateless_random_uniform_full_int_v2"),
    (gen_stateless_random_ops_v2, "stateless_random_normal_v2"),
    (gen_stateless_random_ops_v2, "stateless_truncated_normal_v2"),
)
STATEFUL = frozenset(
    (
        "RandomUniform",
        "RandomUniformInt",
        "RandomStandardNormal",
        "TruncatedNormal",
        "ParameterizedTruncatedNormal",
        "RandomGammaV2",
        "RandomShuffle",
        "Multinomial",
    )
)
"""Operations that draw from a state within TensorFlow's kernels, which nobody can set back."""


@contextmanager
def of_the_whole_batch(frame: Frame, part: Any, kinds: list[bool]) -> Iterator[None]:
    """Within the block, draws that go with the batch are the part's rows of the whole batch's.

    Args:
        frame: where the part lies.
        part: the number of samples in the part.
        kinds: for each draw of the step, in their order, whether it goes with the batch. A trace fills this in anew;
            in eager mode, where shapes do not tell, it is what a trace has found.
    """
    drawn = itertools.count()
    if not tf.executing_eagerly():
        kinds.clear()
    with ExitStack() as undo:
        for module, name in _BY_SHAPE:
            original = getattr(module, name, None)
            if original is not None:
                setattr(module, name, _rows(original, frame, part, kinds, drawn))
                undo.callback(setattr, module, name, original)
        yield


def _rows(
    original: Callable[..., Any], frame: Frame, part: Any, kinds: list[bool], drawn: Iterator[int]
) -> Callable[..., Any]:
    signature = inspect.signature(original)

    def draw(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        shape = bound.arguments["shape"]
        number = next(drawn)
        if not tf.executing_eagerly():
            kinds.append(_goes_with_the_batch(shape))
        if number >= len(kinds) or not kinds[number]:
            return original(*args, **kwargs)
        shape = tf.cast(tf.convert_to_tensor(shape), tf.int32)
        rows = shape[0] // part  # rows for each sample: a layer may have folded time into the first dimension
        bound.arguments["shape"] = tf.concat([[rows * frame.whole], shape[1:]], axis=0)
        whole = original(*bound.args, **bound.kwargs)
        first = tf.concat([[rows * frame.start], tf.zeros_like(shape[1:])], axis=0)
        return tf.slice(whole, first, shape)

    return draw


def _goes_with_the_batch(shape: Any) -> bool:
    """Whether the first dimension is a multiple of the batch: in a trace, those that are not known beforehand."""
    known = tensor_util.constant_value_as_shape(tf.convert_to_tensor(shape))
    return known.rank is not None and known.rank > 0 and known[0] is None


def draws_from_hidden_state(graph: Any) -> bool:
    """Whether a traced graph, or a function that it calls, draws random numbers that can not be drawn again."""
    definition = graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return any(node.op in STATEFUL for node in nodes)
