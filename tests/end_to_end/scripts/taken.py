"""Trains in float64 while another process takes most of the memory and then frees it: `taken.py OUT.npz`."""

import sys

import keras
import numpy as np
import tensorflow as tf


class SomebodyElse(keras.callbacks.Callback):
    """Holds 16 MiB in the second and fourth epochs, from the third step on."""

    def __init__(self):
        super().__init__()
        self.epoch, self.has = 0, []

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch in (1, 3) and batch == 2:
            self.has.extend(tf.ones((1 << 20,), tf.uint8) for _ in range(16))

    def on_epoch_end(self, epoch, logs=None):
        self.has.clear()


keras.utils.set_random_seed(1)
keras.config.set_floatx("float64")
rng = np.random.default_rng(0)
x = rng.normal(size=(6 * 4096, 16))
y = x[:, :1]
model = keras.Sequential([keras.Input((16,)), *[keras.layers.Dense(128, "tanh") for _ in range(2)]])
model.add(keras.layers.Dense(1))
model.compile("sgd", "mse", jit_compile=False)
losses = model.fit(x, y, batch_size=4096, epochs=5, verbose=0, callbacks=[SomebodyElse()]).history["loss"]
np.savez(sys.argv[1], np.array(losses), *model.get_weights())
