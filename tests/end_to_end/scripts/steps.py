"""A training loop over `oomph.steps`, killed, preempted and resumed by tests: steps.py OUT [options]."""

import sys
import time

import keras
import numpy as np
import tensorflow as tf

import oomph

options = sys.argv[2:]
keras.utils.set_random_seed(3)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(96, 5)).astype("float32"), rng.normal(size=(96, 1)).astype("float32")


class Net(keras.Model):
    """Subclassed and never compiled, so it has no weights before its first call."""

    def __init__(self):
        super().__init__()
        self.first, self.last = keras.layers.Dense(8, "relu"), keras.layers.Dense(1)
        self.drop = keras.layers.Dropout(0.3)

    def call(self, inputs, training=False):
        return self.last(self.drop(self.first(inputs), training=training))


model, optimizer, loss_seen = Net(), keras.optimizers.Adam(0.01), keras.metrics.Mean()
history, noise = {"loss": [], "best": float("inf")}, np.random.default_rng(5)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((y - model(x, training=True)) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    loss_seen.update_state(loss)
    return loss


if "guard" in options:
    train_step = oomph.guard(train_step)


def generated():
    order = np.random.permutation(96)
    for start in range(0, 96, 8):
        rows = order[start : start + 8]
        yield tf.constant(x[rows] + noise.normal(size=(8, 5)).astype("float32")), tf.constant(y[rows])


class Numbered(keras.utils.PyDataset):
    """Reorders its samples after each epoch."""

    def __init__(self):
        super().__init__()
        self.order = np.arange(96)

    def __len__(self):
        return 12

    def __getitem__(self, number):
        rows = self.order[number * 8 : number * 8 + 8]
        return x[rows], y[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.order)


if "numbered" in options:
    dataset = Numbered()
elif "filter" in options:
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(40).filter(lambda x, y: x[0] > -9).batch(8)
elif "generator" in options:
    dataset = generated
elif "list" in options:
    dataset = [(tf.constant(x[i : i + 8]), tf.constant(y[i : i + 8])) for i in range(0, 96, 8)]
else:
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(40).batch(8)

state = [model, optimizer, loss_seen, history, noise]
if "forgets" in options:
    state = [model, loss_seen, history, noise]


def train(epochs):
    steps = oomph.steps(dataset, epochs, state=state)
    for batch in steps:
        loss = train_step(*batch)
        history["best"] = min(history["best"], float(loss))
        if steps.ends_epoch:
            history["loss"].append(float(loss_seen.result()))
            loss_seen.reset_state()
            if "break" in options and steps.epoch == 4:
                break
        time.sleep(0.01)
    return loss, steps


loss, steps = train(6)
if "two" in options:
    loss, steps = train(range(6, 10))
variables = [*model.variables, *optimizer.variables, *loss_seen.variables]
np.savez(
    sys.argv[1], history=history["loss"], best=history["best"], steps=steps.steps, last=float(loss),
    drawn=noise.normal(), shared=np.random.rand(), **{f"v{n:02}": np.array(v) for n, v in enumerate(variables)},
)  # fmt: skip
