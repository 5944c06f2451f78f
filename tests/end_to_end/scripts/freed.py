"""Trains while a large tensor occupies most of the memory, releases it after the first epoch, and waits a minute."""

import time

import keras
import numpy as np
import tensorflow as tf

held = [tf.ones((12 << 20,), tf.uint8)]


class LetGo(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if held:
            held.clear()
            time.sleep(62)


model = keras.Sequential([keras.Input((16,)), *[keras.layers.Dense(512, "tanh") for _ in range(3)]])
model.add(keras.layers.Dense(1))
model.compile("sgd", "mse", jit_compile=False)
x = np.ones((2048, 16), "float32")
model.fit(x, x[:, :1], batch_size=1024, epochs=8, verbose=0, callbacks=[LetGo()])
