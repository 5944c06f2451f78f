"""Pretraining that is done only once, as its file shows, followed by the actual training: `pretrained.py OUT.npz`."""

import os
import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1, "sigmoid")])
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", jit_compile=False)
if not os.path.exists("pretrained.weights.h5"):
    model.fit(x, x[:, :1] > 0, batch_size=16, epochs=2, verbose=0, callbacks=[Pace()])
    model.save_weights("pretrained.weights.h5")
else:
    model.load_weights("pretrained.weights.h5")
losses = model.fit(x, y, batch_size=16, epochs=5, verbose=0, callbacks=[Pace()]).history["loss"]
variables = [*model.variables, *model.optimizer.variables]
np.savez(sys.argv[1], losses=losses, **{f"v{i}": np.asarray(v) for i, v in enumerate(variables)})
