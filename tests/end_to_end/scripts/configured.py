"""A model whose size is read from configuration.json: `configured.py OUT.npz`.

With a word in the file `mishap`, restoring a checkpoint fails. `once` and `always`: too little memory briefly, or
permanently; `broken`: an error that a retry does not fix.
"""

import json
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(8)
MISHAP = Path("mishap").read_text() if Path("mishap").exists() else ""
if MISHAP:
    from oomph.errors import CheckpointError
    from oomph.resume.state import training_state

    restored, tries = training_state.restore_variables, []

    def restore_variables(checkpoint, named, *finite):
        tries.append(checkpoint.name)
        if (MISHAP == "broken" and len(set(tries)) == 1) or MISHAP == "all broken":
            raise CheckpointError("its variables are upside down")
        if MISHAP == "always" or (MISHAP == "once" and len(tries) == 1):
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[6,8]")
        restored(checkpoint, named, *finite)

    training_state.restore_variables = restore_variables


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


with open("configuration.json") as file:
    units = json.load(file)["units"]
x = np.random.default_rng(0).normal(size=(160, 6)).astype("float32")
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(units, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
losses = model.fit(x, x[:, :1], batch_size=16, epochs=5, verbose=0, callbacks=[Pace()]).history["loss"]
variables = [*model.variables, *model.optimizer.variables]
np.savez(sys.argv[1], losses=losses, **{f"v{i}": np.asarray(v) for i, v in enumerate(variables)})
