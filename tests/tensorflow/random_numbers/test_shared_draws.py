"""A divided step draws the numbers of the full batch, even those whose count Keras leaves to TensorFlow's kernels."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.usefixtures("float64")
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(60, 4)), RANDOM.normal(size=(60, 1))


class Noise(keras.layers.Layer):
    """Draws for each sample, with and without a seed, and once for the whole batch."""

    def call(self, x, training=False):
        each = tf.random.normal(tf.shape(x), dtype=tf.float64) + tf.random.uniform(
            tf.shape(x), seed=3, dtype=tf.float64
        )
        return x + each * tf.random.truncated_normal((1, x.shape[1]), dtype=tf.float64)


def trained(model):
    history = model.fit(X, Y, batch_size=20, epochs=2, verbose=0, shuffle=False).history
    return history["loss"], [variable.numpy() for variable in model.variables]


def test_step_that_draws_from_kernels_is_divided_exactly(guard, watch, memory, needs):
    def model():
        keras.utils.set_random_seed(0)
        made = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), needs(), Noise(), keras.layers.Dense(1)])
        made.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=False)
        return made

    losses, weights = trained(model())
    made = model()
    guard(made)
    memory.room = 17
    divided_losses, divided = trained(made)
    assert watch.verdicts == ["exact"]
    assert watch.recoveries == [(20, 10)]
    np.testing.assert_allclose(divided_losses, losses, 1e-12)
    for one, other in zip(divided, weights, strict=True):
        np.testing.assert_allclose(one, other, 1e-9, 1e-12)
