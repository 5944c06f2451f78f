# CycleGAN on tiny signals: four networks and optimizers, an ImagePool (Python list of old fakes, random.uniform) reached through tf.numpy_function from train_step, linear decay of all rates, two datasets zipped.
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(57)

L = 16


def waves(n, kind):
    t = np.linspace(0, 1, L)
    f, p = np.random.uniform(1, 3, (n, 1)), np.random.uniform(0, 6.28, (n, 1))
    w = np.sin(2 * np.pi * f * t + p)
    if kind == "square":
        w = np.sign(w)
    return (w + np.random.normal(0, 0.05, w.shape)).astype("float32")


A, B = waves(240, "sine"), waves(260, "square")
train = tf.data.Dataset.zip(
    (
        tf.data.Dataset.from_tensor_slices(A).shuffle(240).batch(16),
        tf.data.Dataset.from_tensor_slices(B).shuffle(260).batch(16),
    )
)


class ImagePool:
    def __init__(self, size=50):
        self.size = size
        self.images = []

    def query(self, images):
        out = []
        for img in images:
            if len(self.images) < self.size:
                self.images.append(img)
                out.append(img)
            elif random.uniform(0, 1) > 0.5:
                k = random.randint(0, self.size - 1)
                out.append(self.images[k])
                self.images[k] = img
            else:
                out.append(img)
        return np.stack(out)


def generator():
    return keras.Sequential([layers.Input((L,)), layers.Dense(32, activation="relu"), layers.Dropout(0.1), layers.Dense(L, activation="tanh")])


def discriminator():
    return keras.Sequential([layers.Input((L,)), layers.Dense(24), layers.LeakyReLU(0.2), layers.Dense(1)])


class CycleGan(keras.Model):
    def __init__(self):
        super().__init__()
        self.g_ab, self.g_ba = generator(), generator()
        self.d_a, self.d_b = discriminator(), discriminator()
        self.pool_a, self.pool_b = ImagePool(), ImagePool()

    def compile(self, lr=2e-3):
        super().compile(jit_compile=False)
        self.opts = [keras.optimizers.Adam(lr, beta_1=0.5) for _ in range(4)]

    def call(self, a):
        return self.g_ab(a)

    def train_step(self, data):
        a, b = data
        mse = lambda p, t: tf.reduce_mean(tf.square(p - t))
        mae = lambda p, t: tf.reduce_mean(tf.abs(p - t))
        with tf.GradientTape(persistent=True) as tape:
            fake_b, fake_a = self.g_ab(a, training=True), self.g_ba(b, training=True)
            cyc = mae(self.g_ba(fake_b, training=True), a) + mae(self.g_ab(fake_a, training=True), b)
            ident = mae(self.g_ba(a, training=True), a) + mae(self.g_ab(b, training=True), b)
            loss_ab = mse(self.d_b(fake_b), 1.0) + 5.0 * cyc + ident
            loss_ba = mse(self.d_a(fake_a), 1.0) + 5.0 * cyc + ident
        old_a = tf.ensure_shape(tf.numpy_function(self.pool_a.query, [fake_a], tf.float32), (None, L))
        old_b = tf.ensure_shape(tf.numpy_function(self.pool_b.query, [fake_b], tf.float32), (None, L))
        with tf.GradientTape(persistent=True) as dtape:
            loss_da = 0.5 * (mse(self.d_a(a), 1.0) + mse(self.d_a(old_a), 0.0))
            loss_db = 0.5 * (mse(self.d_b(b), 1.0) + mse(self.d_b(old_b), 0.0))
        for opt, tp, net, loss in (
            (self.opts[0], tape, self.g_ab, loss_ab),
            (self.opts[1], tape, self.g_ba, loss_ba),
            (self.opts[2], dtape, self.d_a, loss_da),
            (self.opts[3], dtape, self.d_b, loss_db),
        ):
            opt.apply(tp.gradient(loss, net.trainable_variables), net.trainable_variables)
        return {"g_ab": loss_ab, "g_ba": loss_ba, "d_a": loss_da, "d_b": loss_db, "cyc": cyc}


class LinearDecay(keras.callbacks.Callback):
    def __init__(self, start, total):
        super().__init__()
        self.start, self.total = start, total

    def on_epoch_begin(self, epoch, logs=None):
        if epoch >= self.start:
            for o in self.model.opts:
                o.learning_rate = 2e-3 * (self.total - epoch) / (self.total - self.start)


class Monitor(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.shown = []

    def on_epoch_end(self, epoch, logs=None):
        pick = random.sample(range(len(A)), 3)
        self.shown.append(self.model.g_ab(A[pick]).numpy())


model = CycleGan()
model.compile()
mon = Monitor()
h = model.fit(train, epochs=10, callbacks=[LinearDecay(5, 10), mon], verbose=2)

res = {}
for name in ("g_ab", "g_ba", "d_a", "d_b"):
    net = getattr(model, name)
    res.update({f"{name}_{i}": w for i, w in enumerate(net.get_weights())})
for j, o in enumerate(model.opts):
    res.update({f"opt{j}_{i}": np.asarray(v) for i, v in enumerate(o.variables)})
res.update({f"hist_{k}": np.array([float(q) for q in v]) for k, v in h.history.items()})
res["pool_a"] = np.stack(model.pool_a.images)
res["pool_b"] = np.stack(model.pool_b.images)
res["shown"] = np.array(mon.shown)
res["next"] = np.array([random.random(), np.random.rand()])
np.savez("result.npz", **res)
