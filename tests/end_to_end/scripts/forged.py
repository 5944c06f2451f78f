"""A fit with callbacks that write: `forged.py OUT.npz`."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
x = np.random.normal(size=(240, 8)).astype("float32")


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
callbacks = [
    keras.callbacks.ModelCheckpoint("best.weights.h5", "loss", save_best_only=True, save_weights_only=True),
    keras.callbacks.EarlyStopping("loss", patience=5, restore_best_weights=True),
    keras.callbacks.ReduceLROnPlateau("loss", patience=2),
    Pace(),
]
history = model.fit(x, x[:, :1], epochs=4, batch_size=16, verbose=0, callbacks=callbacks)
out = {str(i): np.asarray(v) for i, v in enumerate([*model.variables, *model.optimizer.variables])}
np.savez(sys.argv[1], loss=history.history["loss"], **out)
print("done")
