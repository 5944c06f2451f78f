"""The losses of a batch's parts add up to the loss of the batch, whatever Keras divides by."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.exact_step.micro_batch.interception import MicroBatchLosses
from oomph.keras_bridge.batch.batches import MicroBatchSlice

SIZES = [5, 4, 1]
N = sum(SIZES)

pytestmark = pytest.mark.usefixtures("float64")


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def weights(seed=3):
    """Far from equal, with a total far from the number of samples; the last part contains only a zero."""
    values = np.random.default_rng(seed).uniform(0, 9, N) ** 2
    values[-1] = 0
    return values


@pytest.fixture
def linear():
    def make(loss, **compiled):
        def build():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
            model.compile(keras.optimizers.SGD(0.1), loss, **{"jit_compile": False, **compiled})
            return model

        return build

    return make


REDUCTIONS = ["sum_over_batch_size", "sum", "none", "mean_with_sample_weight"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_loss_reduction_yields_the_update_of_the_whole_batch(as_keras, linear, reduction, weighted):
    make = linear(keras.losses.MeanSquaredError(reduction=reduction))
    batch = (numbers(N, 3), numbers(N, 2), *([weights()] if weighted else []))
    as_keras(make, batch, SIZES)


@pytest.mark.parametrize(
    ("reduction", "weighted"), [("sum_over_batch_size", False), ("sum", True), ("mean_with_sample_weight", True)]
)
def test_masked_sequences_are_divided_by_the_valid_entries_of_the_batch(as_keras, reduction, weighted):
    def make():
        layers = [keras.Input((4,)), keras.layers.Embedding(7, 3, mask_zero=True)]
        model = keras.Sequential([*layers, keras.layers.Dense(2), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError(reduction=reduction), jit_compile=False)
        return model

    words = np.random.default_rng(1).integers(1, 7, (N, 4))
    for row in range(N):
        words[row, 1 + row % 4 :] = 0  # from one to four valid entries
    heavy = weights()[:, None] * [1.0, 3.0, 0.5, 2.0]
    as_keras(make, (words, numbers(N, 4, 1), *([heavy] if weighted else [])), SIZES)


def test_part_without_a_valid_entry_or_weight_contributes_nothing(as_keras, linear):
    heavy = weights()
    heavy[:5] = 0
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    as_keras(linear(loss), (numbers(N, 3), numbers(N, 2), heavy), SIZES)


@pytest.mark.parametrize("reduction", ["sum", "mean_with_sample_weight"])
def test_every_reduction_is_exact_in_eager_mode(as_keras, linear, reduction):
    make = linear(keras.losses.MeanSquaredError(reduction=reduction), run_eagerly=True)
    as_keras(make, (numbers(N, 3), numbers(N, 2), weights()), SIZES)


def test_several_losses_each_have_their_own_divisor(as_keras):
    def make():
        inputs = keras.Input((3,))
        one, two = (keras.layers.Dense(1, name=name)(inputs) for name in ("one", "two"))
        model = keras.Model(inputs, {"one": one, "two": two})
        losses = {
            "one": keras.losses.MeanAbsoluteError(reduction="mean_with_sample_weight"),
            "two": keras.losses.MeanSquaredError(reduction="sum"),
        }
        model.compile(keras.optimizers.SGD(0.01), losses, loss_weights={"one": 3.0, "two": 0.5}, jit_compile=False)
        return model

    targets = {"one": numbers(N, 1), "two": numbers(N, 1, seed=1)}
    as_keras(make, (numbers(N, 3), targets, {"one": weights(), "two": weights(seed=4)}), SIZES)


def mean_of_squares(y, p):
    return keras.ops.mean((y - p) ** 2)


def sum_of_squares(y, p):
    return keras.ops.sum((y - p) ** 2)


@pytest.mark.parametrize("loss", [mean_of_squares, sum_of_squares])
def test_a_scalar_loss_is_recognised_as_a_mean_or_a_sum(as_keras, linear, loss):
    ours = as_keras(linear(loss), (numbers(N, 3), numbers(N, 2)), SIZES, probe=True)
    assert ours.divided.summed == [float(loss is sum_of_squares)]


class Penalty(keras.layers.Layer):
    """Adds `how` of its inputs' squares to the loss."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def call(self, x):
        self.add_loss(0.3 * self.how(x**2))
        return x


@pytest.mark.parametrize("how", [keras.ops.mean, keras.ops.sum])
def test_added_loss_with_a_regulariser_is_recognised_as_mean_or_sum(as_keras, how):
    def make():
        dense = keras.layers.Dense(2, kernel_regularizer="l2", activity_regularizer="l1")
        model = keras.Sequential([keras.Input((3,)), dense, Penalty(how), keras.layers.Dense(2)])
        model.compile(keras.optimizers.SGD(0.01), "mse", jit_compile=False)
        return model

    ours = as_keras(make, (numbers(N, 3), numbers(N, 2)), SIZES, probe=True)
    assert sum(ours.divided.summed) == (how is keras.ops.sum)


@pytest.mark.parametrize(
    ("reduction", "masked", "expected"),
    [("mean_with_sample_weight", False, [7.0]), ("mean", True, [3.0]), ("sum", True, []), ("mean", False, [])],
)
def test_only_loss_divisors_depending_on_the_data_are_collected(reduction, masked, expected):
    values, losses = tf.constant(numbers(4, 1)), MicroBatchLosses(None)
    if masked:
        values._keras_mask = tf.constant([True, False, True, True])
    loss = keras.losses.MeanSquaredError(reduction=reduction)
    heavy = tf.constant([1.0, 4.0, 2.0, 0.0], tf.float64)
    plain = float(keras.ops.sum(loss(tf.zeros((4, 1), tf.float64), values, heavy)))
    with MicroBatchLosses.replaced(lambda: losses):
        assert float(keras.ops.sum(loss(tf.zeros((4, 1), tf.float64), values, heavy))) == plain
    assert [float(divisor) for divisor in losses.divisors] == pytest.approx(expected, abs=1e-6)


def test_part_as_large_as_the_batch_leaves_the_loss_unchanged():
    losses, values = MicroBatchLosses(MicroBatchSlice.of(0, 4, 4, [7.0], [1.0])), tf.constant(numbers(4, 1))
    loss = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
    heavy = tf.constant([1.0, 4.0, 2.0, 0.0], tf.float64)
    plain = float(loss(tf.zeros_like(values), values, heavy))
    with MicroBatchLosses.replaced(lambda: losses):
        assert float(loss(tf.zeros_like(values), values, heavy)) == plain


def test_replaced_loss_functions_are_restored_even_after_an_error():
    from keras.src.losses import loss as module

    def replaceable():
        return module.reduce_values, module.apply_mask, keras.layers.Layer.losses

    before = replaceable()
    with MicroBatchLosses.replaced(lambda: MicroBatchLosses(None)):
        assert not any(one is other for one, other in zip(before, replaceable(), strict=True))
    with pytest.raises(ZeroDivisionError), MicroBatchLosses.replaced(lambda: MicroBatchLosses(None)):
        raise ZeroDivisionError
    assert replaceable() == before


def test_a_micro_batch_slice_is_kept_on_the_host():
    frame = MicroBatchSlice.of(3, 2, 8, [1.5], [1, 0])
    assert [value.numpy().tolist() for value in frame] == [0.25, 3, 8, [1.5], [1.0, 0.0]]
    for value, spec in zip(frame, MicroBatchSlice.specs(), strict=True):
        assert spec.is_compatible_with(value)
        assert value.device.endswith("CPU:0")
