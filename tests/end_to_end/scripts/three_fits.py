"""Three fits of two models, fully seeded: `three_fits.py OUT.npz [--width N]`."""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("out")
parser.add_argument("--width", type=int, default=32)
args = parser.parse_args()

keras.utils.set_random_seed(1)
tf.config.experimental.enable_op_determinism()
rng = np.random.default_rng(0)
x = rng.normal(size=(384, 16)).astype("float32")
y = rng.integers(0, 10, 384)


class Pace(keras.callbacks.Callback):
    """Real steps also take time."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


def new_model():
    model = keras.Sequential(
        [
            keras.layers.Dense(args.width, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])
    return model


data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(384, reshuffle_each_iteration=True).batch(32)
first, second = new_model(), new_model()
histories = [
    first.fit(x, y, epochs=3, batch_size=32, verbose=0, callbacks=[Pace(), keras.callbacks.CSVLogger("log.csv")]),
    first.fit(data, epochs=3, verbose=0, validation_data=(x[:64], y[:64]), callbacks=[Pace()]),
    second.fit(
        data,
        epochs=4,
        verbose=0,
        callbacks=[Pace(), keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=0.5)],
    ),
]
out = {"after": np.concatenate([rng.normal(size=3), np.random.normal(size=3), tf.random.normal((3,)).numpy()])}
for number, model in enumerate((first, second)):
    for index, variable in enumerate([*model.variables, *model.optimizer.variables]):
        out[f"model{number}/{index}"] = np.asarray(variable)
for number, history in enumerate(histories):
    out[f"history{number}/epoch"] = np.asarray(history.epoch)
    for key, series in history.history.items():
        out[f"history{number}/{key}"] = np.asarray(series)
np.savez(args.out, **out)
