"""Looks for a batch size that fits, as many scripts do. Its loss cannot be split into micro-batches."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)


def spread(y, p):
    return tf.math.reduce_std(y - p)


def train(batch):
    model = keras.Sequential(
        [keras.Input((16,)), *[keras.layers.Dense(512, "tanh") for _ in range(3)], keras.layers.Dense(1)]
    )
    model.compile("adam", spread, jit_compile=False)
    model.fit(rng.normal(size=(batch, 16)), rng.normal(size=(batch, 1)), batch_size=batch, verbose=0)


for size in (8192, 256):
    try:
        train(size)
        print("trained at", size)
    except tf.errors.ResourceExhaustedError as error:
        print("caught", type(error).__name__, "at", size)
