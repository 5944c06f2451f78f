# Gradual unfreezing by a callback that recompiles in mid-fit (state machine with an enum), then iterative magnitude pruning with masks in a dict and rewinding to early weights over more fits.
import enum
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(34)

X = tf.random.normal((700, 14)).numpy()
A = tf.random.normal((14, 6)).numpy()
y = np.argmax(np.abs(X @ A) ** 1.5 + np.random.gumbel(0, 0.3, (700, 6)), 1)

model = keras.Sequential(name="net")
model.add(keras.Input((14,)))
for i, u in enumerate([40, 32, 24]):
    model.add(layers.Dense(u, activation="relu", name=f"body{i}"))
    model.add(layers.BatchNormalization(name=f"bn{i}"))
model.add(layers.Dense(6, activation="softmax", name="head"))


class Phase(enum.Enum):
    HEAD = 1
    TOP = 2
    ALL = 3


class GradualUnfreeze(keras.callbacks.Callback):
    def __init__(self, lr):
        super().__init__()
        self.phase = Phase.HEAD
        self.lr = lr
        self.since = 0
        self.best = float("inf")
        self.moments = []

    def on_epoch_end(self, epoch, logs=None):
        self.since += 1
        improved = logs["loss"] < self.best - 0.03
        self.best = min(self.best, logs["loss"])
        if (not improved or self.since >= 3) and self.phase != Phase.ALL:
            self.phase = Phase(self.phase.value + 1)
            names = ["body2", "bn2"] if self.phase is Phase.TOP else ["body0", "bn0", "body1", "bn1"]
            for nme in names:
                self.model.get_layer(nme).trainable = True
            self.lr *= 0.7
            self.model.compile(keras.optimizers.Adam(self.lr), "sparse_categorical_crossentropy", metrics=["accuracy"])
            self.model.make_train_function()
            self.moments.append((epoch, self.lr, len(self.model.trainable_weights)))
            self.since, self.best = 0, float("inf")


for layer in model.layers[:-1]:
    layer.trainable = False
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
gu = GradualUnfreeze(0.01)
h1 = model.fit(X[:560], y[:560], epochs=12, batch_size=28, callbacks=[gu], verbose=0)

# lottery ticket
early = model.get_weights()
masks = {}


class ApplyMasks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        for name, m in masks.items():
            k = self.model.get_layer(name).kernel
            k.assign(k * m)


densities, prune_hist = [], []
for rnd in range(3):
    h = model.fit(X[:560], y[:560], epochs=3, batch_size=28, callbacks=[ApplyMasks()], validation_data=(X[560:], y[560:]), verbose=0)
    prune_hist.append(h.history["val_loss"])
    for i in range(3):
        layer = model.get_layer(f"body{i}")
        k = np.abs(np.asarray(layer.kernel))
        old = masks.get(layer.name, np.ones_like(k))
        cut = np.quantile(k[old > 0], 0.3 + 0.05 * np.random.rand())
        masks[layer.name] = (old * (k > cut)).astype("float32")
    densities.append([float(m.mean()) for m in masks.values()])
    model.set_weights(early)
    for name, m in masks.items():
        k = model.get_layer(name).kernel
        k.assign(k * m)
h3 = model.fit(X[:560], y[:560], epochs=4, batch_size=28, callbacks=[ApplyMasks()], verbose=0)

res = {f"w{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"early{i}": w for i, w in enumerate(early)})
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"mask_{k}": v for k, v in masks.items()})
res["h1"] = np.array([h1.history["loss"], h1.history["accuracy"]])
res["h2"] = np.array(prune_hist)
res["h3"] = np.array(h3.history["loss"])
res["moments"] = np.array(gu.moments)
res["densities"] = np.array(densities)
res["pred"] = model.predict(X[560:570], verbose=0)
np.savez("result.npz", **res)
