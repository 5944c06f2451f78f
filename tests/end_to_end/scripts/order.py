"""The sources of random numbers and of the data order: `order.py OUT.npz KIND...`, one fit for each."""

import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

STEPS, EPOCHS = 12, 4
rng = np.random.default_rng(0)
x = rng.normal(size=(16 * STEPS, 6)).astype("float32")
y = (x[:, :1] * 2).astype("float32")
out = {}


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)


class Noisy(keras.Model):
    """Draws random numbers in its own step, as a GAN does."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        inputs, targets = data
        return super().train_step((inputs + 0.1 * tf.random.normal(tf.shape(inputs)), targets))


class Shuffled(keras.utils.PyDataset):
    """Reorders its samples after every epoch."""

    def __init__(self, **options):
        super().__init__(**options)
        self.order, self.rng = np.arange(len(x)), np.random.default_rng(3)
        self.rng.shuffle(self.order)

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        rows = self.order[16 * index : 16 * index + 16]
        return x[rows], y[rows]

    def on_epoch_end(self):
        self.rng.shuffle(self.order)


def fit(name, data, model=None, **options):
    model = model or keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    arguments = {"x": data} if not isinstance(data, tuple) else {"x": data[0], "y": data[1], "batch_size": 16}
    losses = model.fit(**arguments, epochs=EPOCHS, verbose=0, callbacks=[Pace()], **options).history
    for index, variable in enumerate([*model.variables, *model.optimizer.variables]):
        out[f"{name}/{index}"] = np.asarray(variable)
    for key, values in losses.items():
        out[f"{name}/{key}"] = np.asarray(values)


def slices():
    return tf.data.Dataset.from_tensor_slices((x, y))


def draws(name):
    fit(name, (x, y), Noisy())


def mapped(name):
    generator = tf.random.Generator.from_seed(5)
    fit(name, slices().shuffle(200).map(lambda a, b: (a + 0.1 * generator.normal(tf.shape(a)), b)).batch(16))


def batch(name):
    fit(name, (x, y), shuffle="batch")


def numbered(name):
    fit(name, Shuffled(), shuffle=True)


def workers(name):
    fit(name, Shuffled(workers=2, max_queue_size=4), shuffle=True)


def validated(name):
    fit(name, slices().shuffle(200).batch(16), validation_data=slices().shuffle(50).batch(16).take(2))


def split(name):
    """Training and validation share one shuffle, whose order differs in every epoch."""
    whole = slices().shuffle(len(x), reshuffle_each_iteration=True)
    fit(name, whole.skip(32).batch(16), validation_data=whole.take(32).batch(16))


def unknown(name):
    """The number of batches is not known until they have been read."""
    fit(name, slices().filter(lambda a, b: True).shuffle(100).batch(16))


def unseeded(name):
    fit(name, slices().shuffle(200).map(lambda a, b: (a + 0.1 * tf.random.normal(tf.shape(a)), b)).batch(16))


def unseeded_arrays(name):
    fit(name, (x, y))


def unseeded_split(name):
    """The validation samples are chosen once, at random, without a seed."""
    whole = slices().shuffle(len(x), reshuffle_each_iteration=False)
    np.save(f"held-out-{os.getpid()}.npy", np.stack([a for a, _ in whole.take(32).as_numpy_iterator()]))
    fit(name, whole.skip(32).shuffle(50).batch(16), validation_data=whole.take(32).batch(16))


class Sampling(keras.callbacks.Callback):
    """Draws eagerly during training."""

    def on_epoch_end(self, epoch, logs=None):
        self.model.layers[0].kernel.assign_add(0.01 * tf.random.normal((6, 1)))


def unseeded_tensors(name):
    """Both the data and the noise for each epoch are drawn eagerly, without a seed."""
    inputs = tf.random.normal((16 * STEPS, 6))
    np.save(f"drawn-{os.getpid()}.npy", inputs.numpy())
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(
        inputs, y, batch_size=16, epochs=EPOCHS, verbose=0, shuffle=False,
        callbacks=[Pace(), Sampling(), keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: record(model))],
    )  # fmt: skip


def record(model):
    """Write the kernel after each epoch, one line per epoch, to a file of this attempt."""
    with open(f"epochs-{os.getpid()}.txt", "a") as file:
        file.write(np.asarray(model.layers[0].kernel).tobytes().hex() + "\n")


for kind in sys.argv[2:]:
    if not kind.startswith("unseeded"):
        keras.utils.set_random_seed(6)
    globals()[kind](kind)
np.savez(sys.argv[1], **out)
