"""State that exists only in Python, in callbacks, layers and closures: `objects.py OUT.npz [--eager]`."""

import csv
import random
import sys
import time

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(4)
EAGER = "--eager" in sys.argv
STEPS, EPOCHS = 10, 5
x = np.random.default_rng(0).normal(size=(16 * STEPS, 6)).astype("float32")
y = (x[:, :1] * 2).astype("float32")


def nudge(model, by):
    """Anything that is lost shows up in the weights."""
    kernel = model.layers[0].kernel
    kernel.assign_add(tf.fill(kernel.shape, np.float32(by * 1e-3)))


class Draws(keras.callbacks.Callback):
    """Random numbers from its own generators, a list, a counter, and a Python heap."""

    def __init__(self):
        super().__init__()
        self.rng, self.python = np.random.default_rng(5), random.Random(6)
        self.seeds = keras.random.SeedGenerator(7)
        self.seen, self.count = [], 0

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        self.count += 1
        self.seen.append(self.rng.normal() + self.python.random() + self.count / 100)
        nudge(self.model, self.seen[-1] + 0.1 * float(keras.random.normal((), seed=self.seeds)))


class Averages(keras.callbacks.Callback):
    """Keeps an average of the weights, and mixes a little of it in after every epoch."""

    def on_train_begin(self, logs=None):
        self.average = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        self.average = [0.9 * mine + 0.1 * w for mine, w in zip(self.average, self.model.get_weights())]

    def on_epoch_end(self, epoch, logs=None):
        self.model.set_weights([0.8 * w + 0.2 * mine for mine, w in zip(self.average, self.model.get_weights())])


class OneCycle(keras.callbacks.Callback):
    """Goes up and down according to the number of batches counted."""

    def __init__(self, highest, steps):
        super().__init__()
        self.highest, self.steps, self.at, self.rates = highest, steps, 0, []

    def on_train_batch_begin(self, batch, logs=None):
        self.at += 1
        share = 1 - abs(2 * self.at / self.steps - 1)
        self.model.optimizer.learning_rate.assign(self.highest * (0.1 + share))
        self.rates.append(float(self.model.optimizer.learning_rate.numpy()))


class ReadsBack(keras.callbacks.Callback):
    """Writes a table, and reads all of it after every epoch."""

    def __init__(self, path):
        super().__init__()
        self.path, self.file = path, None

    def on_train_begin(self, logs=None):
        self.file = open(self.path, "w", buffering=1, newline="")  # noqa: SIM115
        self.table = csv.writer(self.file)

    def on_train_batch_end(self, batch, logs=None):
        self.table.writerow([batch, repr(float(logs["loss"]))])

    def on_epoch_end(self, epoch, logs=None):
        with open(self.path, newline="") as lines:
            rows = list(csv.reader(lines))
        nudge(self.model, len(rows) / 50 + sum(float(loss) for _, loss in rows) / 1000)


def decaying():
    """A closure that keeps state."""
    last = [1.0, 0]

    def factor(epoch, logs):
        last[0], last[1] = last[0] * 0.7 + logs["loss"] * 0.1, last[1] + 1
        nudge(model, last[0] + last[1])

    return factor, last


def running_mean():
    """A coroutine that is sent values."""
    total, count, value = 0.0, 0, 0.0
    while True:
        value = yield value
        total, count = total + value, count + 1
        value = total / count


class Scales(keras.layers.Layer):
    """Counts its calls in a Python attribute, which a traced function does only once."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def call(self, inputs):
        self.calls += 1
        return inputs * (1.0 + 1e-3 * self.calls if EAGER else 1.0)


class Counting(keras.Sequential):
    taken = 0

    def train_step(self, data):
        logs = super().train_step(data)
        Counting.taken += 1
        if EAGER:
            nudge(self, Counting.taken / 10)
        return logs


model = Counting([keras.Input((6,)), keras.layers.Dense(8, "tanh"), Scales(), keras.layers.Dense(1)])
model.compile(
    keras.optimizers.SGD(0.01, momentum=0.9), "mse", **({"run_eagerly": True} if EAGER else {"jit_compile": False})
)
log = open("log.txt", "w", buffering=1)  # noqa: SIM115
factor, last = decaying()
mean = running_mean()
next(mean)
draws, cycle = Draws(), OneCycle(0.02, STEPS * EPOCHS)
callbacks = [
    draws,
    Averages(),
    cycle,
    ReadsBack("table.csv"),
    keras.callbacks.LambdaCallback(
        on_epoch_end=factor,
        on_train_batch_end=lambda batch, logs: nudge(
            model, mean.send(logs["loss"]) + log.write(f"{logs['loss']!r}\n") / 100
        ),
    ),
]
losses = model.fit(x, y, batch_size=16, epochs=EPOCHS, verbose=0, callbacks=callbacks).history["loss"]
log.close()
kept = {"seen": draws.seen, "rates": cycle.rates, "last": last, "mean": mean.send(0.0)}
kept |= {"calls": model.layers[1].calls, "taken": Counting.taken} if EAGER else {}
for name in ("log.txt", "table.csv"):
    kept[name] = np.fromfile(name, "uint8")
weights = {f"v{i}": np.asarray(v) for i, v in enumerate([*model.variables, *model.optimizer.variables])}
np.savez(sys.argv[1], losses=losses, **weights, **kept)
