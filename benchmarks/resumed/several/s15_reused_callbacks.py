# One ModelCheckpoint, one EarlyStopping and one own counting callback object are reused over a loop of fits with changing data.
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(44)

BATCH = 32


class BatchLosses(keras.callbacks.Callback):
    """Keeps the losses of all batches over all fits."""

    def __init__(self):
        super().__init__()
        self.losses = []
        self.epoch_ends = 0
        self.fits = 0

    def on_train_begin(self, logs=None):
        self.fits += 1

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        self.epoch_ends += 1


def month_of_data(month):
    x = tf.random.normal((320, 10)) + 0.1 * month
    noise = tf.random.normal((320,), stddev=0.5)
    y = tf.cast(x[:, 0] + 0.5 * x[:, 1] * x[:, 2] - 0.1 * month + noise > 0, tf.float32)
    return x, y


inputs = keras.Input((10,))
z = keras.layers.Dense(24, activation="gelu")(inputs)
z = keras.layers.LayerNormalization()(z)
z = keras.layers.Dropout(0.2)(z)
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(z))
model.compile(keras.optimizers.AdamW(3e-3), "binary_crossentropy", metrics=["binary_accuracy"])

checkpoint = keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True, verbose=1)
early = keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, restore_best_weights=True)
batch_losses = BatchLosses()

val_x, val_y = month_of_data(3)
all_hist, bests = [], []
for month in range(6):
    x, y = month_of_data(month)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(320).batch(BATCH)
    history = model.fit(ds, validation_data=(val_x, val_y), epochs=5, verbose=0,
                        callbacks=[checkpoint, early, batch_losses])
    all_hist.append(history.history)
    bests.append([checkpoint.best, early.best, early.best_epoch, early.wait, early.stopped_epoch])
    print(f"month {month}: {len(history.epoch)} epochs, best so far {checkpoint.best:.4f}")

best_model = keras.models.load_model("best.keras")
arr = {"batch_losses": np.array(batch_losses.losses), "counts": np.array([batch_losses.fits, batch_losses.epoch_ends]),
       "bests": np.array(bests)}
for m, h in enumerate(all_hist):
    for k, v in h.items():
        arr[f"m{m}_{k}"] = np.array(v)
for i, v in enumerate(model.variables):
    arr[f"v{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    arr[f"o{i}"] = np.asarray(v)
for i, w in enumerate(best_model.get_weights()):
    arr[f"best{i}"] = w
for i, v in enumerate(best_model.optimizer.variables):
    arr[f"best_o{i}"] = np.asarray(v)
arr["pred"] = best_model.predict(val_x[:20], verbose=0)
np.savez("result.npz", **arr)
