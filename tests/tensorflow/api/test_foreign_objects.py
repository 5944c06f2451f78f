"""oomph.guard searches all objects for optimizers and metrics without disturbing objects of other libraries."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

import oomph


class Lazy:
    """A proxy that would connect to something if queried for anything, including its class."""

    asked = 0

    def __getattribute__(self, name):
        type(self).asked += 1
        raise RuntimeError("nobody is to look at this")


def test_guarding_a_step_never_reads_the_class_of_a_lazy_proxy():
    lazy = Lazy()  # alive while the step is traced
    weight, optimizer = tf.Variable(1.0), keras.optimizers.SGD(0.1)

    @oomph.guard
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(weight * x)
        optimizer.apply_gradients(zip(tape.gradient(loss, [weight]), [weight], strict=True))
        return loss

    assert float(step(np.ones(4, "float32"))) == 1.0
    assert float(weight) < 1.0
    assert Lazy.asked == 0
    assert lazy is not None
