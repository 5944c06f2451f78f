"""A folder of trials that is wiped at the start, as by a tuner with overwrite=True: `wiped.py OUT.npz [--large]`.

With --large, each trial also leaves a file that is too large for oomph to keep a copy of.
"""

import os
import shutil
import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(3)
rng = np.random.default_rng(0)
x = rng.normal(size=(160, 6)).astype("float32")
y = x @ rng.normal(size=(6, 1)).astype("float32")


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


class Large(keras.callbacks.Callback):
    """Writes 72 MB, as the embeddings of a larger model would."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_train_end(self, logs=None):
        np.save(self.path, np.resize(self.model.get_weights()[0], 18_000_000))


def new_model(units):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(units, "tanh"), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    return model


if os.path.exists("trials"):
    shutil.rmtree("trials")
os.makedirs("trials")
losses = {}
for units in (4, 8):
    path = f"trials/{units}.weights.h5"
    callbacks = [Pace(), keras.callbacks.ModelCheckpoint(path, save_weights_only=True)]
    callbacks += [Large(f"trials/{units}.npy")] if "--large" in sys.argv else []
    losses[units] = new_model(units).fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=callbacks).history
best = min(losses, key=lambda units: losses[units]["loss"][-1])
model = new_model(best)
model.load_weights(f"trials/{best}.weights.h5")
model.fit(x, y, batch_size=16, epochs=5, verbose=0, callbacks=[Pace()])
found = np.load(f"trials/{best}.npy", "r")[:100] if os.path.exists(f"trials/{best}.npy") else np.zeros(0)
variables = [*model.variables, *model.optimizer.variables]
np.savez(sys.argv[1], found=found, **{f"v{i}": np.asarray(v) for i, v in enumerate(variables)})
