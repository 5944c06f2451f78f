"""A part draws the same random numbers that its samples get in the whole batch."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import gen_stateless_random_ops_v2 as operations

from oomph.keras_bridge.batch.batches import MicroBatchSlice
from oomph.keras_bridge.random_ops import SlicedRandomOps, draws_from_hidden_state

WHOLE = 7
CUTS = [(0, 4), (4, 2), (6, 1)]
X = np.arange(WHOLE * 3 * 2, dtype="float64").reshape(WHOLE, 3, 2)

pytestmark = pytest.mark.usefixtures("float64")

DRAWS = {
    "dropout": lambda x: keras.random.dropout(x, 0.5, seed=3),
    "normal": lambda x: keras.random.normal(keras.ops.shape(x), seed=3),
    "truncated": lambda x: keras.random.truncated_normal(keras.ops.shape(x), seed=3),
    "uniform": lambda x: keras.random.uniform(keras.ops.shape(x), seed=3),
    "integers": lambda x: keras.random.randint(keras.ops.shape(x), 0, 1000, seed=3),
    "all integers": lambda x: tf.random.stateless_uniform(tf.shape(x), [1, 2], None, None, tf.int32),
    "time folded": lambda x: keras.random.normal((keras.ops.shape(x)[0] * 3, 2), seed=3),
    "one for each sample": lambda x: keras.random.uniform((keras.ops.shape(x)[0], 1, 1), seed=3) * x,
}


def drawing(draws):
    """The block in which TensorFlow draws for a part."""
    return SlicedRandomOps.replaced(lambda: draws)


def of_part(draw, start, size, kinds=None):
    """Return the draws for these samples while the step is traced for a part of any size; fills in `kinds`."""
    kinds = [] if kinds is None else kinds

    @tf.function(input_signature=[tf.TensorSpec([None, 3, 2], tf.float64), *MicroBatchSlice.specs()])
    def traced(part, *frame):
        with drawing(SlicedRandomOps(MicroBatchSlice(*frame), tf.shape(part)[0], kinds)):
            return draw(part)

    return traced(X[start : start + size], *MicroBatchSlice.of(start, size, WHOLE)).numpy()


@pytest.mark.parametrize("name", DRAWS)
def test_random_rows_of_the_parts_match_the_whole_batch(name):
    draw = DRAWS[name]
    whole = np.asarray(draw(tf.constant(X)))
    assert len(np.unique(whole)) > WHOLE
    np.testing.assert_array_equal(np.concatenate([of_part(draw, *cut) for cut in CUTS]), whole)


@pytest.mark.parametrize("name", ["dropout", "normal", "integers"])
def test_random_rows_match_the_batch_in_eager_mode(name):
    draw, rows, kinds = DRAWS[name], [], []
    of_part(draw, 0, 4, kinds)
    assert kinds == [True]
    for start, size in CUTS:
        with drawing(SlicedRandomOps(MicroBatchSlice.of(start, size, WHOLE), size, kinds)):
            rows.append(np.asarray(draw(tf.constant(X[start : start + size]))))
    np.testing.assert_array_equal(np.concatenate(rows), np.asarray(draw(tf.constant(X))))


def test_each_trace_records_its_batch_dependent_draws():
    kinds = [False] * 5

    def draw(x):
        noise = keras.random.normal((3, 2), seed=3) + keras.random.normal(keras.ops.shape(x), seed=4)
        return noise + keras.random.uniform((1, 2), seed=5)

    of_part(draw, 0, 4, kinds)
    assert kinds == [False, True, False]


@pytest.mark.parametrize("shape", [(4, 3), (3,), (1, 5), ()])
def test_draw_with_a_static_shape_is_the_same_in_a_part(shape):
    expected = np.asarray(keras.random.normal(shape, seed=3))
    np.testing.assert_array_equal(of_part(lambda x: keras.random.normal(shape, seed=3), 2, 4), expected)


@pytest.mark.parametrize("shape", [(3, 2), (4, 3), (5,), ()])
@pytest.mark.parametrize("kinds", [[False], []])
def test_eager_draw_not_traced_as_batch_dependent_is_unchanged(shape, kinds):
    expected = np.asarray(keras.random.normal(shape, seed=3))
    for start, size in [*CUTS, (0, 2)]:
        with drawing(SlicedRandomOps(MicroBatchSlice.of(start, size, WHOLE), size, kinds)):
            np.testing.assert_array_equal(np.asarray(keras.random.normal(shape, seed=3)), expected)


def test_a_dropout_mask_shared_by_all_samples_is_the_same_in_every_part():
    def draw(x):
        return keras.random.dropout(x + 1, 0.5, noise_shape=(1, 3, 2), seed=3)

    whole = np.asarray(draw(tf.constant(X)))
    np.testing.assert_array_equal(np.concatenate([of_part(draw, *cut) for cut in CUTS]), whole)


def test_replaced_random_operations_are_restored_even_after_an_error():
    before = operations.stateless_random_normal_v2
    with drawing(SlicedRandomOps(MicroBatchSlice.of(0, 1, 2), 1, [])):
        assert operations.stateless_random_normal_v2 is not before
    with pytest.raises(ZeroDivisionError), drawing(SlicedRandomOps(MicroBatchSlice.of(0, 1, 2), 1, [])):
        raise ZeroDivisionError
    assert operations.stateless_random_normal_v2 is before


@pytest.mark.parametrize(
    ("draw", "hidden"),
    [
        (lambda x: x + tf.random.normal([2]), True),
        (lambda x: tf.random.shuffle(x), True),
        (lambda x: tf.map_fn(lambda v: v + tf.random.uniform([]), x), True),
        (lambda x: x + tf.random.stateless_normal([2], [1, 2]), False),
        (lambda x: x * 2, False),
    ],
)
def test_hidden_state_draws_are_found_in_the_graph(draw, hidden):
    concrete = tf.function(draw).get_concrete_function(tf.TensorSpec([2], tf.float32))
    assert draws_from_hidden_state(concrete.graph) == hidden


@pytest.mark.parametrize("eagerly", [False, True])
def test_divided_step_with_dropout_and_noise_equals_the_undivided_step(as_keras, eagerly):
    def make():
        layers = [keras.layers.Dense(8), keras.layers.Dropout(0.4), keras.layers.GaussianNoise(0.3)]
        model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse", jit_compile=False, run_eagerly=eagerly)
        return model

    random = np.random.default_rng(0)
    as_keras(make, (random.normal(size=(7, 3)), random.normal(size=(7, 1))), [3, 3, 1])


def test_a_mask_computed_after_dropout_is_exact_in_parts(as_keras):
    def make():
        layers = [keras.layers.Dropout(0.5), keras.layers.Masking(), keras.layers.Dense(1)]
        model = keras.Sequential([keras.Input((4, 1)), *layers])
        model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=False)
        return model

    random = np.random.default_rng(0)
    as_keras(make, (random.normal(size=(7, 4, 1)), random.normal(size=(7, 4, 1))), [3, 3, 1])
