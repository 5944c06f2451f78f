"""A layer that multiplies with noise of one part in a million, as reductions on a GPU do: `noise.py OUT.npz [--other]`.

With --other, a callback also changes the weights by a hundredth, by numbers that cannot be drawn again.
"""

import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(9)
x = np.random.default_rng(0).normal(size=(160, 6)).astype("float32")


def noise(inputs):
    share = int.from_bytes(os.urandom(4), "little") / 2**32
    return (inputs * np.float32(1 + 1e-6 * share)).astype("float32")


class Noisy(keras.layers.Layer):
    def call(self, inputs):
        @tf.custom_gradient
        def multiplied(inputs):
            outputs = tf.numpy_function(noise, [inputs], tf.float32, stateful=True)
            return tf.ensure_shape(outputs, inputs.shape), lambda upstream: upstream

        return multiplied(inputs)


class Changes(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        if "--other" in sys.argv:
            share = int.from_bytes(os.urandom(4), "little") / 2**32
            kernel = self.model.layers[0].kernel
            kernel.assign(kernel * (1 + 0.02 * (share - 0.5)))


last = keras.layers.Dense(1, bias_initializer=keras.initializers.Constant(4))
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), last, Noisy()])
model.compile("adam", "mse", jit_compile=False)
model.fit(x, x[:, :1] + 5, batch_size=16, epochs=4, verbose=0, callbacks=[Changes()])
np.savez(sys.argv[1], *model.get_weights())
