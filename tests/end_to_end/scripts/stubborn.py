"""Trains for a long time, and goes on when it is interrupted: `stubborn.py [--give-in]`."""

import sys
import time

import keras
import numpy as np


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


x = np.zeros((160, 4), "float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse", jit_compile=False)
for _ in range(100):
    try:
        model.fit(x, x[:, :1], batch_size=16, epochs=100, verbose=0, callbacks=[Pace()])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        if "--give-in" in sys.argv:
            raise
