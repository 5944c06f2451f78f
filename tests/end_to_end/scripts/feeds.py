"""One fit for each kind of input that is not an array: `feeds.py OUT.npz`."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
x = np.random.normal(size=(128, 8)).astype("float32")
y = x[:, :1].copy()


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)


class Pieces(keras.utils.PyDataset):
    """Reorders its samples after each epoch, in an order that only its own state determines."""

    def __init__(self):
        super().__init__()
        self.order = np.arange(8)

    def __len__(self):
        return 8

    def __getitem__(self, number):
        start = 16 * self.order[number]
        return x[start : start + 16], y[start : start + 16]

    def on_epoch_end(self):
        self.order = np.roll(self.order, 3)


def endless():
    number = 0
    while True:
        yield x[number : number + 16] * (1 + number), y[number : number + 16]
        number = (number + 16) % 128


def fit(data, **options):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    history = model.fit(data, verbose=0, shuffle=False, callbacks=[Pace()], **options)
    return [*history.history["loss"], *(np.asarray(v) for v in [*model.variables, *model.optimizer.variables])]


repeated = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(128).batch(16).repeat()
results = [
    *fit(Pieces(), epochs=3),
    *fit(endless(), epochs=3, steps_per_epoch=8),
    *fit(repeated, epochs=4, initial_epoch=1, steps_per_epoch=8),
]
np.savez(sys.argv[1], **{f"{number:02}": value for number, value in enumerate(results)})
