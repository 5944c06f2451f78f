# Stochastic weight averaging by hand in NumPy lists plus a Polyak average in tf.Variables, the global seeds set anew by a callback every epoch, batch-norm re-estimation at the end.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(12)


class SWA(keras.callbacks.Callback):
    def __init__(self, start, every):
        super().__init__()
        self.start, self.every = start, every
        self.n = 0
        self.avg = None
        self.sq = None
        self.distances = []

    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations)
        if step >= self.start and step % self.every == 0:
            w = [a.astype("float64") for a in self.model.get_weights()]
            if self.avg is None:
                self.avg = w
                self.sq = [a**2 for a in w]
            else:
                for i in range(len(w)):
                    self.avg[i] = (self.avg[i] * self.n + w[i]) / (self.n + 1)
                    self.sq[i] += w[i] ** 2
            self.n += 1
            self.distances.append(sum(float(np.abs(a - b).sum()) for a, b in zip(w, self.avg)))


class Polyak(keras.callbacks.Callback):
    decay = 0.98

    def on_train_begin(self, logs=None):
        self.shadow = [tf.Variable(v.value, trainable=False) for v in self.model.trainable_variables]

    def on_train_batch_end(self, batch, logs=None):
        for s, v in zip(self.shadow, self.model.trainable_variables):
            s.assign(self.decay * s + (1 - self.decay) * v)


class Reseed(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        np.random.seed(1000 + epoch)
        tf.random.set_seed(1000 + epoch)


class WeightNoise(keras.callbacks.Callback):
    """Kicks the weights a bit at random moments (np.random, re-seeded each epoch)."""

    def on_train_batch_begin(self, batch, logs=None):
        if np.random.rand() < 0.1:
            k = self.model.layers[-1].kernel
            k.assign(k + np.random.normal(0, 0.02, k.shape))


X = np.random.randn(800, 12).astype("float32")
y = (np.sin(X[:, :1] * 2) + X[:, 1:2] * X[:, 2:3] + 0.2 * np.random.randn(800, 1)).astype("float32")
Xv, yv = X[640:], y[640:]
X, y = X[:640], y[:640]

model = keras.Sequential(
    [
        keras.Input((12,)),
        layers.Dense(40),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.Dropout(0.1),
        layers.Dense(40),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.Dense(1),
    ]
)
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
swa, polyak = SWA(start=80, every=7), Polyak()
h = model.fit(X, y, epochs=12, batch_size=32, validation_data=(Xv, yv), callbacks=[Reseed(), WeightNoise(), swa, polyak], verbose=0)

res = {f"last{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"hist_{k}": np.array(v) for k, v in h.history.items()})
res["last_pred"] = model.predict(Xv[:10], verbose=0)

model.set_weights(swa.avg)
for i in range(0, 640, 64):  # let the batch norms see the data once
    model(X[i : i + 64], training=True)
res.update({f"swa{i}": w for i, w in enumerate(model.get_weights())})
res.update({f"var{i}": s / swa.n - a**2 for i, (s, a) in enumerate(zip(swa.sq, swa.avg))})
res.update({f"polyak{i}": s.numpy() for i, s in enumerate(polyak.shadow)})
res["n"] = np.array(swa.n)
res["distances"] = np.array(swa.distances)
res["swa_pred"] = model.predict(Xv[:10], verbose=0)
np.savez("result.npz", **res)
