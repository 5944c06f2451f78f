"""Fits whose callbacks and History are read after the fits have finished: `finished.py OUT.npz`."""

import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(2)
rng = np.random.default_rng(0)
x = rng.normal(size=(160, 6)).astype("float32")
y = (x[:, :1] + rng.normal(size=(160, 1))).astype("float32")
out = {}


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


class Finder(keras.callbacks.Callback):
    """Raises the learning rate with every batch, and records the resulting losses."""

    def __init__(self):
        super().__init__()
        self.rates, self.losses = [], []

    def on_train_batch_end(self, batch, logs=None):
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))
        self.losses.append(logs["loss"])
        self.model.optimizer.learning_rate.assign(self.rates[-1] * 1.5)

    def best(self):
        return self.rates[int(np.argmin(self.losses))] / 4


def new_model(rate):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(12, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(rate), "mse", jit_compile=False)
    return model


finder = Finder()
new_model(1e-4).fit(x, y, batch_size=16, epochs=2, verbose=0, callbacks=[Pace(), finder])
rate = finder.best()

# The training length is determined with part of the data held back.
stopping = keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True)
history = new_model(0.01).fit(
    x[:112],
    y[:112],
    validation_data=(x[112:], y[112:]),
    batch_size=16,
    epochs=15,
    verbose=0,
    callbacks=[Pace(), stopping],
)
epochs = stopping.stopped_epoch + 1 - stopping.patience
out["stopped"] = [stopping.stopped_epoch, stopping.best_epoch, epochs, len(history.history["val_loss"])]
out["validated"] = history.history["val_loss"]

# The best of three models, saved by one callback.
keep = keras.callbacks.ModelCheckpoint("best.weights.h5", monitor="loss", save_best_only=True, save_weights_only=True)
for turn in range(3):
    model = new_model(rate / (1 + 30 * turn))  # the first is the best
    model.fit(x, y, batch_size=16, epochs=epochs, verbose=0, callbacks=[Pace(), keep])
    out[f"model{turn}"] = np.asarray(model.weights[0])
model.load_weights("best.weights.h5")
np.savez(sys.argv[1], rate=rate, best=keep.best, kept=np.asarray(model.weights[0]), **out)
