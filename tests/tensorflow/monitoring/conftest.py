"""Data with a known delay, and what a meter has written about a fit."""

from __future__ import annotations

import time

import numpy as np
import pytest
import tensorflow as tf
from measured_fit import BATCHES, Measured


@pytest.fixture
def numbers():
    """Return samples of 4 numbers with 2 labels, for 16 batches of 8."""
    random = np.random.default_rng(0)
    return tuple(random.normal(size=(8 * BATCHES, width)).astype("float32") for width in (4, 2))


@pytest.fixture
def dataset(numbers):
    """Return a `tf.data.Dataset` whose batches take this many seconds each, and are created on request."""

    def make(seconds=0.0):
        def wait(x):
            time.sleep(seconds)
            return x

        def delayed(x, y):
            x = tf.ensure_shape(tf.numpy_function(wait, [x], tf.float32), x.shape)
            return x, y

        made = tf.data.Dataset.from_tensor_slices(numbers).batch(8, drop_remainder=True)
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False  # so that a batch's seconds are the wait for it
        return (made.map(delayed) if seconds else made).with_options(options)

    return make


@pytest.fixture
def measured(tmp_path):
    callback = Measured(tmp_path)
    yield callback
    callback.meter.wait.stop()
    assert callback.problems == []
