"""Losses divided by a count are divided by the whole batch's count."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from oomph.keras_bridge.graph import divisor_in_data

N, LENGTH, SIZES = 8, 5, [4, 3, 1]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(N, LENGTH, 3))
Y = RANDOM.integers(0, 4, (N, LENGTH))  # 0 is padding

pytestmark = pytest.mark.usefixtures("float64")


def entries(y, p):
    return keras.losses.sparse_categorical_crossentropy(y, p, from_logits=True)


def over_valid(y, p):
    mask = tf.cast(y > 0, p.dtype)
    return tf.reduce_sum(entries(y, p) * mask) / tf.reduce_sum(mask)


def guarded_against_none(y, p):
    mask = tf.cast(y > 0, p.dtype)
    return tf.math.divide_no_nan(tf.reduce_sum(entries(y, p) * mask), tf.maximum(tf.reduce_sum(mask), 1.0))


def over_all(y, p):
    return tf.reduce_sum(entries(y, p)) / tf.cast(tf.size(y), p.dtype)


def scaled(y, p):
    return tf.reduce_sum(entries(y, p)) / 7.0


def over_valid_of_a_loss(y, p):
    """As in many tutorials: a loss object that returns one number per entry."""
    mask = tf.cast(y > 0, p.dtype)
    each = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")(y, p)
    return tf.reduce_sum(each * mask) / tf.reduce_sum(mask)


def mean_of_a_loss(y, p):
    return tf.reduce_mean(keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)(y, p))


def sum_of_a_loss(y, p):
    return 0.1 * keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum")(y, p)


def mean_over_length(y, p):
    """The divisor depends on the data, and is the same for every part."""
    return tf.reduce_mean(entries(y, p)) / tf.cast(tf.shape(y)[1], p.dtype)


def sum_over_length(y, p):
    return tf.reduce_sum(entries(y, p)) / tf.cast(tf.shape(y)[1], p.dtype)


SEVEN = tf.constant(7.0)


def mean_over_a_captured_number(y, p):
    return tf.reduce_mean(entries(y, p)) / tf.cast(SEVEN, p.dtype)


def sum_over_a_captured_number(y, p):
    return tf.reduce_sum(entries(y, p)) / tf.cast(SEVEN, p.dtype)


class Loss(keras.losses.Loss):
    def call(self, y, p):
        return over_valid(y, p)


LOSSES = {"valid": over_valid, "no nan": guarded_against_none, "all": over_all, "constant": scaled, "class": Loss}
LOSSES |= {f.__name__: f for f in (mean_over_length, sum_over_length)}
LOSSES |= {f.__name__: f for f in (mean_over_a_captured_number, sum_over_a_captured_number)}
LOSSES |= {"of a loss": over_valid_of_a_loss, "mean of a loss": mean_of_a_loss, "sum of a loss": sum_of_a_loss}


@pytest.mark.parametrize("name", LOSSES)
def test_loss_divided_by_a_count_trains_the_same_in_parts_as_whole(as_keras, name):
    def make():
        model = keras.Sequential([keras.Input((LENGTH, 3)), keras.layers.Dense(4)])
        loss = Loss() if name == "class" else LOSSES[name]
        model.compile(keras.optimizers.Adam(0.1), loss, jit_compile=False)
        return model

    as_keras(make, (X, Y), SIZES, probe=True)


def test_a_loss_divided_by_a_count_is_exact_in_a_custom_train_step(as_keras):
    class Own(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x, training=True))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"loss": loss}

    def make():
        model = Own([keras.Input((LENGTH, 3)), keras.layers.Dense(4)])
        model.compile(keras.optimizers.Adam(0.1), over_valid, jit_compile=False)
        return model

    as_keras(make, (X, Y), SIZES, probe=True)


EACH = {
    "as it is": lambda loss, y: loss,
    "its mean": lambda loss, y: tf.reduce_mean(loss),
    "its sum": lambda loss, y: tf.reduce_sum(loss),
    "over the batch": lambda loss, y: tf.nn.compute_average_loss(tf.reduce_mean(loss, 1), global_batch_size=N),
}


@pytest.mark.parametrize("name", EACH)
def test_per_entry_losses_are_exact_in_a_custom_train_step(as_keras, name):
    """As in masked language models and multi-device training; the metric also receives each entry."""

    class Own(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                each = self.each(y, self(x, training=True))
                loss = EACH[name](each, y)
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            self.seen.update_state(each)
            return {"loss": self.seen.result()}

        @property
        def metrics(self):
            return [self.seen]

    def make():
        model = Own([keras.Input((LENGTH, 3)), keras.layers.Dense(4)])
        model.each = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
        model.seen = keras.metrics.Mean(name="seen")
        model.compile(keras.optimizers.Adam(0.1), jit_compile=False)
        return model

    as_keras(make, (X, Y), SIZES, probe=True)


def test_loss_divided_by_a_weight_dependent_value_is_still_refused(guarded):
    def coupled(y, p):
        return tf.reduce_sum(entries(y, p)) / tf.reduce_sum(p**2)

    model = keras.Sequential([keras.Input((LENGTH, 3)), keras.layers.Dense(4)])
    model.compile("adam", coupled, jit_compile=False)
    assert not guarded(model, (X, Y)).find().equal


@pytest.mark.parametrize("loss", [over_valid, over_all])
def test_a_loss_divided_by_a_count_is_not_recognised_in_an_eager_step(guarded, loss):
    model = keras.Sequential([keras.Input((LENGTH, 3)), keras.layers.Dense(4)])
    model.compile("adam", loss, run_eagerly=True)
    assert guarded(model, (X, Y)).find().equal is (loss is over_all)


DIVISORS = {
    "a count": (lambda x, w: tf.reduce_sum(x * w) / tf.reduce_sum(tf.cast(x > 0, tf.float64)), True),
    "a constant": (lambda x, w: tf.reduce_sum(x * w) / 3.0, False),
    "weights": (lambda x, w: tf.reduce_sum(x) / tf.reduce_sum(w), False),
    "a mean": (lambda x, w: tf.reduce_mean(x * w) / tf.reduce_sum(x), False),
    "nothing": (lambda x, w: tf.reduce_sum(x * w), False),
    "each by its own": (lambda x, w: tf.reduce_sum(x / tf.reduce_sum(x, axis=1, keepdims=True)), False),
    "drawn": (lambda x, w: tf.reduce_sum(x) / (tf.reduce_sum(x) + tf.random.uniform([], dtype=tf.float64)), False),
}


@pytest.mark.parametrize("name", DIVISORS)
def test_a_divisor_that_depends_only_on_data_is_found(name):
    make, is_found = DIVISORS[name]
    weights, found = tf.Variable(tf.ones([3], tf.float64)), []

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)], autograph=False)
    def step(x):
        found.append(divisor_in_data(make(x, weights)) is not None)

    step.get_concrete_function()
    assert found == [is_found]
