"""Runs out of memory in plain eager code, or in a graph, and catches it, then trains a little in eager mode."""

import sys

import keras
import numpy as np
import tensorflow as tf


def product(tall, wide):
    return tall @ wide


try:
    (tf.function(product) if "--graph" in sys.argv else product)(tf.ones((40_000, 1)), tf.ones((1, 4_000)))
except tf.errors.ResourceExhaustedError as error:
    print("caught", type(error).__name__)
layer, optimizer = keras.layers.Dense(1), keras.optimizers.SGD(0.1)
layer.build((None, 4))
for _ in range(5):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(layer(np.ones((2, 4), "float32")) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables))
print("trained", int(optimizer.iterations.numpy()))
