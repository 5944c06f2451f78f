# Net2Net: three fits, the model is rebuilt wider and then deeper in between with random unit copies; learning rate, history and a results list go on in Python.
import os
import random

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2101)

X = np.random.uniform(-1, 1, (960, 5)).astype("float32")
y = np.stack([np.cos(3 * X[:, 0]) * X[:, 1], np.exp(-X[:, 2] ** 2 * 4) - X[:, 3] * X[:, 4]], 1).astype("float32")
y += np.random.normal(0, 0.05, y.shape).astype("float32")


def build(widths):
    m = keras.Sequential([keras.Input((5,))])
    for w in widths:
        m.add(layers.Dense(w, activation="relu"))
    m.add(layers.Dense(2))
    return m


def widen(model, widths, layer, new_width):
    """Copies randomly picked units and shares their outgoing weights."""
    ws = [l.get_weights() for l in model.layers]
    old = widths[layer]
    mapping = list(range(old)) + [random.randrange(old) for _ in range(new_width - old)]
    count = np.bincount(mapping, minlength=old)
    k, b = ws[layer]
    ws[layer] = [k[:, mapping] + np.random.normal(0, 1e-3, (k.shape[0], new_width)), b[mapping]]
    k2, b2 = ws[layer + 1]
    ws[layer + 1] = [(k2 / count[:, None])[mapping], b2]
    widths = list(widths)
    widths[layer] = new_width
    new = build(widths)
    for l, w in zip(new.layers, ws):
        l.set_weights(w)
    return new, widths


def deepen(model, widths):
    ws = [l.get_weights() for l in model.layers]
    widths = list(widths) + [widths[-1]]
    new = build(widths)
    ws.insert(len(ws) - 1, [np.eye(widths[-1]) + np.random.normal(0, 1e-3, (widths[-1],) * 2), np.zeros(widths[-1])])
    for l, w in zip(new.layers, ws):
        l.set_weights(w)
    return new, widths


class SlowDown(keras.callbacks.Callback):
    """One object for all phases."""

    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.losses = []

    def on_epoch_begin(self, epoch, logs=None):
        self.model.optimizer.learning_rate = self.lr

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append(logs["val_loss"])
        if len(self.losses) > 2 and self.losses[-1] > min(self.losses[:-1]) * 0.97:
            self.lr *= 0.8


widths = [8, 8]
model = build(widths)
slow = SlowDown(0.01)
pieces, done = [], 0
results = {}
for phase, epochs in enumerate([6, 6, 6]):
    model.compile(keras.optimizers.Adam(), "mse")
    h = model.fit(
        X[:800], y[:800], batch_size=32, initial_epoch=done, epochs=done + epochs,
        validation_data=(X[800:], y[800:]), callbacks=[slow], verbose=0,
    )
    done += epochs
    pieces.append([h.history["loss"], h.history["val_loss"]])
    for i, w in enumerate(model.get_weights()):
        results[f"phase{phase}_w{i}"] = w
    for i, v in enumerate(model.optimizer.variables):
        results[f"phase{phase}_o{i}"] = np.asarray(v)
    if phase == 0:
        model, widths = widen(model, widths, 0, 16)
        model, widths = widen(model, widths, 1, 14)
    elif phase == 1:
        model, widths = deepen(model, widths)

results["history"] = np.array(pieces)
results["lr"] = np.array([slow.lr] + slow.losses)
results["pred"] = model.predict(X[800:815], verbose=0)
np.savez("result.npz", **results)
