"""Moving state is updated once per step, as the whole batch would update it."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.sums import MovingStatistics
from oomph.keras_bridge.graph import Slot

N, SIZES = 10, [5, 3, 2]
X = np.random.default_rng(0).normal(2.0, 3.0, (N, 4))

pytestmark = pytest.mark.usefixtures("float64")


class Moves(keras.layers.Layer):
    """Counts its calls, and keeps an exponential mean of its inputs."""

    def build(self, shape):
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")
        self.whole = self.add_weight(shape=(), initializer="zeros", dtype="int64", trainable=False, name="whole")
        self.mean = self.add_weight(shape=shape[1:], initializer="ones", trainable=False, name="mean")

    def call(self, x):
        self.calls.assign_add(1.0)
        self.whole.assign_add(1)
        self.mean.assign(0.9 * self.mean + 0.1 * keras.ops.mean(x, axis=0))
        return x


def made(*layers):
    def make():
        model = keras.Sequential([keras.Input((4,)), *(layer() for layer in layers), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
        return model

    return make


def test_counters_and_averages_are_updated_once_per_divided_step(as_keras):
    ours = as_keras(made(Moves), (X, X[:, :1]), SIZES)
    layer = ours.model.layers[0]
    assert (float(layer.calls.numpy()), int(layer.whole.numpy())) == (2, 2)
    np.testing.assert_allclose(layer.mean.numpy(), 0.81 + 0.19 * X.mean(0), 1e-12)


def test_dropout_seeds_advance_once_per_divided_step(as_keras):
    ours = as_keras(made(lambda: keras.layers.Dropout(0.5)), (X, X[:, :1]), SIZES)
    layer = ours.model.layers[0]
    assert layer.seed_generator.state.numpy().tolist() == [layer.seed_generator.state.numpy()[0], 2]


@pytest.mark.parametrize("sizes", [SIZES, [9, 1], [1] * N])
def test_moving_mean_and_variance_match_the_whole_batch(guarded, sizes):
    model = made(lambda: keras.layers.BatchNormalization(momentum=0.7))()
    ours = guarded(model, (X, X[:, :1]))
    ours.take(sizes)
    layer = model.layers[0]
    np.testing.assert_allclose(layer.moving_mean.numpy(), 0.3 * X.mean(0), 1e-12)
    np.testing.assert_allclose(layer.moving_variance.numpy(), 0.7 + 0.3 * X.var(0), 1e-12)


def moved(values, sizes, metrics=()):
    """Return the value after parts that each set it to one of these values, starting with 0 or False."""
    variable = tf.Variable(tf.zeros_like(values[0]))
    state = MovingStatistics(keras.Sequential(), [Slot.of(variable)], [variable] if metrics else [])
    state.start()
    for value, size in zip(values, sizes, strict=True):
        state.before_micro_batch()
        if not metrics:
            assert not np.any(variable.numpy()), "every part starts from the state before the step"
        variable.assign(value)
        state.after_micro_batch(size / sum(sizes))
    state.finish()
    return variable.numpy().tolist()


def test_floats_are_averaged_weighted_by_the_share_of_each_part():
    assert moved([tf.constant([1.0, 4.0]), tf.constant([5.0, 0.0])], [3, 1]) == [2.0, 3.0]


@pytest.mark.parametrize("value", [0.1, 1e300, 3.3333333333333335, -0.0])
def test_value_that_is_equal_in_all_parts_is_kept_bit_for_bit(value):
    assert moved([tf.constant(value, tf.float64)] * 3, [5, 3, 2]) == value


@pytest.mark.parametrize("value", [tf.constant([2**63 - 1, 3]), tf.constant(True), tf.constant([4, 5], tf.uint32)])
def test_integer_state_comes_from_the_first_part(value):
    assert moved([value, value], [3, 1]) == value.numpy().tolist()


def test_moving_state_from_a_single_part_is_unchanged():
    assert moved([tf.constant(0.1)], [3]) == tf.constant(0.1).numpy()


def test_metric_variables_are_not_averaged_as_moving_state():
    assert moved([tf.constant(1.0), tf.constant(7.0)], [1, 1], metrics=True) == 7
    variable = tf.Variable(1.0)
    assert MovingStatistics(keras.Sequential(), [Slot.of(variable)], [variable]).slots == []
