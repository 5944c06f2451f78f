# VQ-VAE with an EMA codebook (cluster sizes and sums as layer variables) and a callback that revives dead codes with Python's random from a reservoir of encoder outputs.
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(27)


class VectorQuantizerEMA(layers.Layer):
    def __init__(self, n_codes, dim, decay=0.95, **kw):
        super().__init__(**kw)
        self.n_codes, self.dim, self.decay = n_codes, dim, decay

    def build(self, shape):
        mk = lambda name, shape, init: self.add_weight(name=name, shape=shape, initializer=init, trainable=False)
        self.codebook = mk("codebook", (self.n_codes, self.dim), "random_normal")
        self.size = mk("size", (self.n_codes,), "ones")
        self.sums = mk("sums", (self.n_codes, self.dim), "random_normal")
        self.usage = mk("usage", (self.n_codes,), "zeros")

    def call(self, z, training=False):
        e = tf.convert_to_tensor(self.codebook)
        d = tf.reduce_sum(z**2, 1, keepdims=True) - 2 * tf.matmul(z, e, transpose_b=True) + tf.reduce_sum(e**2, 1)
        idx = tf.argmin(d, 1)
        onehot = tf.one_hot(idx, self.n_codes)
        q = tf.matmul(onehot, e)
        if training:
            self.size.assign(self.decay * self.size + (1 - self.decay) * tf.reduce_sum(onehot, 0))
            self.sums.assign(self.decay * self.sums + (1 - self.decay) * tf.matmul(onehot, z, transpose_a=True))
            self.codebook.assign(self.sums / tf.maximum(self.size[:, None], 1e-3))
            self.usage.assign_add(tf.reduce_sum(onehot, 0))
        self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(q) - z) ** 2))
        return z + tf.stop_gradient(q - z)


class Reviver(keras.callbacks.Callback):
    def __init__(self, encoder, x):
        super().__init__()
        self.encoder, self.x = encoder, x
        self.reservoir, self.seen = [], 0
        self.events = []

    def on_train_batch_end(self, batch, logs=None):
        if batch % 5:
            return
        i = random.randrange(len(self.x))
        z = np.asarray(self.encoder(self.x[i : i + 1]))[0]
        self.seen += 1
        if len(self.reservoir) < 12:
            self.reservoir.append(z)
        elif random.random() < 12 / self.seen:
            self.reservoir[random.randrange(12)] = z

    def on_epoch_end(self, epoch, logs=None):
        vq = self.model.get_layer("vq")
        usage = vq.usage.numpy()
        cb, size, sums = vq.codebook.numpy(), vq.size.numpy(), vq.sums.numpy()
        for c in np.where(usage < 3)[0]:
            z = random.choice(self.reservoir) + np.array([random.gauss(0, 0.05) for _ in range(vq.dim)])
            cb[c], size[c], sums[c] = z, 1.0, z
            self.events.append((epoch, int(c)))
        vq.codebook.assign(cb)
        vq.size.assign(size)
        vq.sums.assign(sums)
        vq.usage.assign(np.zeros_like(usage))


proto = np.random.randn(12, 20)
X = (proto[np.random.randint(0, 12, 960)] + 0.4 * np.random.randn(960, 20)).astype("float32")

inp = keras.Input((20,))
z = layers.Dense(24, activation="relu")(inp)
z = layers.Dense(4)(z)
encoder = keras.Model(inp, z)
q = VectorQuantizerEMA(20, 4, name="vq")(z)
x = layers.Dense(24, activation="relu")(q)
model = keras.Model(inp, layers.Dense(20)(x))
model.compile(keras.optimizers.Adam(4e-3), "mse")
rev = Reviver(encoder, X)
hist = model.fit(X, X, epochs=15, batch_size=40, callbacks=[rev], verbose=0)

res = {f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({k: np.array(v) for k, v in hist.history.items()})
res["reservoir"] = np.array(rev.reservoir)
res["events"] = np.array(rev.events).reshape(-1, 2)
res["seen"] = np.array(rev.seen)
res["rand_next"] = np.array([random.random() for _ in range(3)])
res["pred"] = model.predict(X[:10], verbose=0)
np.savez("result.npz", **res)
