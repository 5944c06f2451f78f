"""Some rows of random numbers match those of the whole draw without drawing the whole."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_stateless_random_ops_v2 as operations

from oomph.keras_bridge import random_ops
from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.random_ops import SlicedRandomOps

LARGE = (257, 3001)  # drawn by several threads in parallel

KINDS = {
    "uniform": ("stateless_random_uniform_v2", ("float16", "bfloat16", "float32", "float64")),
    "normal": ("stateless_random_normal_v2", ("float16", "bfloat16", "float32", "float64")),
    "integers": ("stateless_random_uniform_int_v2", ("int32", "int64")),
    "all integers": ("stateless_random_uniform_full_int_v2", ("int32", "int64", "uint32", "uint64")),
}
UNDER_XLA = (tf.float32, tf.float16, tf.int32)
EACH = [(name, tf.as_dtype(dtype)) for name, dtypes in KINDS.values() for dtype in dtypes]


@pytest.fixture(autouse=True)
def nothing_tried(monkeypatch):
    monkeypatch.setattr(random_ops, "_tried", {})


def arguments(name, dtype, shape, counter=(2**64 - 40, 3)):
    signature = inspect.signature(getattr(operations, name))
    kind = {"dtype": dtype} if "dtype" in signature.parameters else {"minval": tf.constant(3, dtype)}
    kind |= {} if "dtype" in kind else {"maxval": tf.constant(90, dtype)}
    state = {"key": tf.constant([7], tf.uint64), "counter": tf.constant(counter, tf.uint64), "alg": 1}
    return signature.bind(shape=shape, **state, **kind)


@pytest.mark.parametrize(("name", "dtype"), EACH)
def test_rows_drawn_from_any_offset_match_the_whole_draw(name, dtype):
    operation, bound = getattr(operations, name), arguments(name, dtype, LARGE)
    assert random_ops.draws_rows(operation, bound, compiled=False)
    whole = operation(*bound.args, **bound.kwargs).numpy()
    for first, count in [(0, 1), (1, 5), (100, 30), (255, 2)]:
        at = tf.constant(first * LARGE[1], tf.int64)
        rows = random_ops.drawn_rows(operation, bound, at, tf.constant([count, LARGE[1]]))
        assert rows.dtype == dtype
        np.testing.assert_array_equal(rows.numpy(), whole[first : first + count])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "dtype"), [each for each in EACH if each[1] in UNDER_XLA and "normal" not in each[0]])
def test_rows_drawn_under_xla_match_the_whole_draw(name, dtype):
    operation = getattr(operations, name)

    @tf.function(jit_compile=True)
    def compiled(counter, first):
        bound = arguments(name, dtype, [40, 7], (0, 0))
        bound.arguments["counter"] = counter
        return operation(*bound.args, **bound.kwargs), random_ops.drawn_rows(
            operation, bound, first, tf.constant([6, 7])
        )

    assert random_ops.draws_rows(operation, arguments(name, dtype, [40, 7]), compiled=True)
    for first in (0, 3, 34):
        whole, rows = compiled(tf.constant([2**64 - 40, 3], tf.uint64), tf.constant(7 * first, tf.int64))
        np.testing.assert_array_equal(rows.numpy(), whole.numpy()[first : first + 6])


def test_normal_rows_cannot_be_drawn_separately_under_xla():
    bound = arguments("stateless_random_normal_v2", tf.float32, [40, 7])
    assert random_ops.draws_rows(operations.stateless_random_normal_v2, bound, compiled=False)
    assert not random_ops.draws_rows(operations.stateless_random_normal_v2, bound, compiled=True)


@pytest.mark.parametrize("compiled", [False, True])
def test_truncated_normal_rows_cannot_be_drawn_separately(compiled):
    bound = arguments("stateless_truncated_normal_v2", tf.float32, [4, 3])
    assert not random_ops.draws_rows(operations.stateless_truncated_normal_v2, bound, compiled)


def test_a_philox_trial_that_runs_out_of_memory_is_repeated_later(monkeypatch):
    trial = random_ops._try

    def without_memory(*_):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    operation, bound = operations.stateless_random_normal_v2, arguments("stateless_random_normal_v2", tf.float32, [4])
    monkeypatch.setattr(random_ops, "_try", without_memory)
    assert not random_ops.draws_rows(operation, bound, compiled=False)
    monkeypatch.setattr(random_ops, "_try", trial)
    assert random_ops.draws_rows(operation, bound, compiled=False)


def drawn_by(draw, start, part, whole):
    """Return how many numbers a part of an eager step draws."""
    sizes, original = [], operations.stateless_random_uniform_v2

    def counts(shape, key, counter, alg, dtype=tf.float32, name=None):
        sizes.append(int(np.prod(shape)))
        return original(shape, key, counter, alg, dtype, name)

    operations.stateless_random_uniform_v2 = counts
    try:
        draws = SlicedRandomOps(MicroBatchSlice.of(start, part, whole), part, [True])
        with SlicedRandomOps.replaced(lambda: draws):
            draw()
    finally:
        operations.stateless_random_uniform_v2 = original
    return sizes[-1]


def test_part_draws_only_the_random_numbers_for_its_own_samples(monkeypatch):
    def draw():
        tf.random.stateless_uniform([4, 1000], [1, 2])

    assert drawn_by(draw, 64, 4, 512) == 4 * 1000 + 3
    monkeypatch.setattr(random_ops, "_try", lambda *_: False)
    random_ops._tried.clear()
    assert drawn_by(draw, 64, 4, 512) == 512 * 1000
