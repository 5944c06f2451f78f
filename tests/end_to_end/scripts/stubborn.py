"""Trains for a long time, and continues when it is interrupted: `stubborn.py [--give-in]`.

In its 12th step it creates the file `asleep` and sleeps: a KeyboardInterrupt anywhere else may be lost in TensorFlow
or NumPy, under plain Python too (in `EagerTensor.__array__` silently, in `AtomicFunction.__del__` with a line).
"""

import sys
import time
from pathlib import Path

import keras
import numpy as np


class Pace(keras.callbacks.Callback):
    steps = 0

    def on_train_batch_end(self, batch, logs=None):
        Pace.steps += 1
        if Pace.steps == 12:
            Path("asleep").touch()
            for _ in range(3000):  # a single long sleep would continue if the signal came just before it
                time.sleep(0.01)
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
