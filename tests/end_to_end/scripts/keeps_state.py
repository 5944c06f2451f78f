"""State everywhere that scripts keep it: `keeps_state.py OUT.npz [--width N]`."""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--width", type=int, default=16)
args = parser.parse_args()

keras.utils.set_random_seed(3)
tf.config.experimental.enable_op_determinism()
x = np.random.normal(size=(128, 8)).astype("float32")
y = x[:, :1] + np.random.normal(size=(128, 1)).astype("float32")


class Counting(keras.layers.Layer):
    """A variable that Keras does not know about, and an array that the layer saves itself."""

    def build(self, shape):
        self.calls = tf.Variable(0.0, trainable=False)
        self.log = np.zeros(2)

    def call(self, x):
        self.calls.assign_add(1.0)
        return x + 1e-3 * tf.sin(self.calls)

    def save_own_variables(self, store):
        super().save_own_variables(store)
        store["log"] = self.log

    def load_own_variables(self, store):
        self.log = np.array(store.pop("log"))
        super().load_own_variables(store)


class Mean(keras.callbacks.Callback):
    """Keeps a sum, and declares it."""

    def __init__(self):
        super().__init__()
        self.losses, self.total = [], np.zeros(1)

    def on_train_batch_end(self, batch, logs=None):
        self.total += logs["loss"]
        time.sleep(0.01)

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append(float(logs["loss"]))
        counting.log += [1, logs["loss"]]

    def get_state(self):
        return {"losses": self.losses, "total": self.total}

    def set_state(self, state):
        self.losses, self.total = state["losses"], state["total"]


class Silent(keras.callbacks.Callback):
    """Keeps a count, but does not declare it."""

    epochs = 0

    def on_epoch_end(self, epoch, logs=None):
        self.epochs = self.epochs + 1


class Patient(keras.callbacks.EarlyStopping):
    pass


counting, mean, silent = Counting(), Mean(), Silent()
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(args.width, "relu"), counting, keras.layers.Dense(1)])
model.compile("adam", "mse")
stopping = Patient("val_loss", patience=3, restore_best_weights=True, min_delta=0.01)
best = keras.callbacks.ModelCheckpoint("best.weights.h5", "val_loss", save_best_only=True, save_weights_only=True)
history = model.fit(
    x,
    y,
    epochs=10,
    batch_size=16,
    verbose=0,
    validation_data=(x[:32], y[:32]),
    callbacks=[
        mean,
        silent,
        stopping,
        best,
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.9),
        keras.callbacks.ReduceLROnPlateau("val_loss", patience=1, min_delta=0.05),
    ],
)
out = {str(i): np.asarray(v) for i, v in enumerate([*model.variables, *model.optimizer.variables])}
kept = {"calls": counting.calls.numpy(), "log": counting.log, "losses": mean.losses, "total": mean.total}
kept["epochs"] = silent.epochs
counters = {"best": float(stopping.best), "wait": stopping.wait, "saved": float(best.best)}
np.savez(args.out, **history.history, **out, **kept, **counters)
