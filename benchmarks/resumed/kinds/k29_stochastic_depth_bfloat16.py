# Residual net with stochastic depth in mixed_bfloat16: drop rates in tf.Variables grown by a callback from layer statistics, call counters in layers, layer dropped for good by a Python flag.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(29)

keras.mixed_precision.set_global_policy("mixed_bfloat16")


class ResBlock(layers.Layer):
    def __init__(self, units, **kw):
        super().__init__(**kw)
        self.d1 = layers.Dense(units, activation="relu")
        self.norm = layers.BatchNormalization(momentum=0.8)
        self.d2 = layers.Dense(units, kernel_initializer="zeros")
        self.removed = False  # Python flag, needs a re-trace

    def build(self, shape):
        self.d1.build(shape)
        self.norm.build((None, self.d1.units))
        self.d2.build((None, self.d1.units))
        self.drop = tf.Variable(0.05, trainable=False, dtype=tf.float32, name="drop")
        self.calls_kept = tf.Variable(0, trainable=False, dtype=tf.int64, name="kept")
        self.energy = tf.Variable(0.0, trainable=False, dtype=tf.float32, name="energy")
        super().build(shape)

    def call(self, x, training=False):
        if self.removed:
            return x
        r = self.d2(self.norm(self.d1(x), training=training))
        if training:
            keep = tf.cast(tf.random.uniform(()) >= self.drop, tf.float32)
            self.calls_kept.assign_add(tf.cast(keep, tf.int64))
            self.energy.assign(0.95 * self.energy + 0.05 * tf.reduce_mean(tf.square(tf.cast(r, tf.float32))))
            return x + r * tf.cast(keep / (1 - self.drop), r.dtype)
        return x + r


class GrowDrop(keras.callbacks.Callback):
    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks
        self.patience = {b.name: 0 for b in blocks}
        self.log = []

    def on_epoch_end(self, epoch, logs=None):
        e = np.array([float(b.energy.numpy()) for b in self.blocks])
        order = [i for i in np.argsort(e) if not self.blocks[i].removed]
        for rank, i in enumerate(order):
            b = self.blocks[i]
            b.drop.assign(tf.minimum(0.5, b.drop + 0.03 / (1 + rank)))
        weakest = self.blocks[order[0]]
        self.patience[weakest.name] += 1
        if self.patience[weakest.name] == 4 and sum(b.removed for b in self.blocks) < 2:
            weakest.removed = True
            self.model.make_train_function(force=True)
            self.model.make_test_function(force=True)
        self.log.append(np.concatenate([e, [b.removed for b in self.blocks]]))


X = np.random.randn(900, 16).astype("float32")
y = ((X[:, 0] * X[:, 1] > 0).astype(int) + 2 * (X[:, 2] + 0.5 * X[:, 3] ** 2 > 0.5).astype(int)).astype("int32")

inp = keras.Input((16,))
h = layers.Dense(24)(inp)
blocks = [ResBlock(24, name=f"block_{c}") for c in "abcd"]
for b in blocks:
    h = b(h)
out = layers.Dense(4, dtype="float32", activation="softmax")(h)
model = keras.Model(inp, out)
model.compile(keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
cb = GrowDrop(blocks)
hist = model.fit(X[:750], y[:750], validation_data=(X[750:], y[750:]), batch_size=30, epochs=13, callbacks=[cb], verbose=0)

res = {f"w{i}": np.asarray(v).astype("float32") for i, v in enumerate(model.variables)}
res.update({f"opt{i}": np.asarray(v).astype("float32") for i, v in enumerate(model.optimizer.variables)})
for b in blocks:
    res[b.name] = np.array([b.drop.numpy(), b.calls_kept.numpy(), b.energy.numpy(), b.removed], "float64")
res.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
res["log"] = np.array(cb.log)
res["patience"] = np.array([cb.patience[b.name] for b in blocks])
res["pred"] = model.predict(X[750:760], verbose=0)
np.savez("result.npz", **res)
