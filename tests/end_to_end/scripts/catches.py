"""Looks for a batch size that fits, as many scripts do. Its own train step is nothing that could be divided."""

import keras
import numpy as np
import tensorflow as tf


class Own(keras.Sequential):
    def train_step(self, data):
        return super().train_step(data)


def train(batch):
    model = Own([keras.Input((16,)), *[keras.layers.Dense(512, "tanh") for _ in range(3)], keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    model.fit(np.zeros((batch, 16), "float32"), np.zeros((batch, 1), "float32"), batch_size=batch, verbose=0)


for size in (8192, 256):
    try:
        train(size)
        print("trained at", size)
    except tf.errors.ResourceExhaustedError as error:
        print("caught", type(error).__name__, "at", size)
