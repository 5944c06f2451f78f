"""Three fits, one of which is edited between two attempts: `edits.py OUT.npz`."""

import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(12)
x = np.random.default_rng(0).normal(size=(160, 6)).astype("float32")


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


def new_model():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    return model


first, second, third = new_model(), new_model(), new_model()
first.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0, callbacks=[Pace()])
second.fit(x, x[:, 1:2], batch_size=16, epochs=4, verbose=0, callbacks=[Pace()])
third.fit(x, x[:, 2:3], batch_size=16, epochs=2, verbose=0, callbacks=[Pace()])
out = {f"{n}/{i}": np.asarray(w) for n, m in enumerate((first, second, third)) for i, w in enumerate(m.variables)}
np.savez(sys.argv[1], **out)
