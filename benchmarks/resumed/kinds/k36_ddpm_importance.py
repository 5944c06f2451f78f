# Small DDPM: noise schedule table, loss-aware time-step sampling with a history in variables, EMA network, and a callback which samples images with the EMA net and anneals the schedule.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(36)

STEPS = 40


def denoiser():
    x = keras.Input((16,))
    t = keras.Input((), dtype="int32")
    emb = layers.Embedding(STEPS, 16)(t)
    h = layers.Concatenate()([x, emb])
    for _ in range(2):
        h = layers.Dense(64, activation="swish")(h)
        h = layers.Dropout(0.02)(h)
    return keras.Model([x, t], layers.Dense(16)(h))


class DDPM(keras.Model):
    def __init__(self):
        super().__init__()
        self.net, self.ema = denoiser(), denoiser()
        self.ema.trainable = False
        self.ema.set_weights(self.net.get_weights())
        self.seed = keras.random.SeedGenerator(36 if os.environ.get("UNSEEDED") != "1" else None)
        self.alpha_bar = self.add_weight(shape=(STEPS,), initializer="zeros", trainable=False, name="alpha_bar")
        self.t_loss = self.add_weight(shape=(STEPS,), initializer="ones", trainable=False, name="t_loss")
        self.set_schedule(0.15)
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def set_schedule(self, beta_max):
        betas = np.linspace(1e-3, beta_max, STEPS)
        self.alpha_bar.assign(np.cumprod(1 - betas).astype("float32"))
        self.beta_max = beta_max

    def call(self, inputs):
        return self.ema(inputs)

    def train_step(self, x):
        b = ops.shape(x)[0]
        p = self.t_loss / ops.sum(self.t_loss)
        t = keras.random.categorical(ops.log(p)[None], b, seed=self.seed)[0]
        t = ops.cast(t, "int32")
        a = ops.take(self.alpha_bar, t)[:, None]
        eps = keras.random.normal(ops.shape(x), seed=self.seed)
        xt = ops.sqrt(a) * x + ops.sqrt(1 - a) * eps
        with tf.GradientTape() as tape:
            per = ops.mean(ops.square(self.net([xt, t], training=True) - eps), axis=1)
            w = 1.0 / (STEPS * ops.take(p, t))
            loss = ops.mean(per * w)
        vs = self.net.trainable_variables
        self.optimizer.apply(tape.gradient(loss, vs), vs)
        onehot = ops.one_hot(t, STEPS)
        n = ops.sum(onehot, 0)
        mean = ops.sum(onehot * per[:, None], 0) / ops.maximum(n, 1.0)
        self.t_loss.assign(ops.where(n > 0, 0.9 * self.t_loss + 0.1 * mean, self.t_loss))
        for e, v in zip(self.ema.trainable_variables + self.ema.weights, self.net.trainable_variables + self.net.weights):
            if e.dtype == "float32":
                e.assign(0.97 * e + 0.03 * v)
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}

    def sample(self, n, rng):
        x = rng.normal(size=(n, 16)).astype("float32")
        ab = np.asarray(self.alpha_bar)
        al = ab / np.concatenate([[1.0], ab[:-1]])
        for t in reversed(range(STEPS)):
            e = np.asarray(self.ema([x, np.full(n, t, "int32")]))
            x = (x - (1 - al[t]) / np.sqrt(1 - ab[t]) * e) / np.sqrt(al[t])
            if t:
                x = x + np.sqrt(1 - al[t]) * rng.normal(size=x.shape)
            x = x.astype("float32")
        return x


class Show(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rng = np.random.default_rng(np.random.randint(10**6))
        self.gallery = []

    def on_epoch_end(self, epoch, logs=None):
        if epoch % 4 == 3:
            imgs = self.model.sample(6, self.rng)
            self.gallery.append(imgs)
            self.model.set_schedule(self.model.beta_max * (1.1 if imgs.std() > 1 else 0.9))


phase = np.random.rand(800, 1) * 2 * np.pi
X = (np.sin(np.linspace(0, 2 * np.pi, 16)[None] * np.random.randint(1, 3, (800, 1)) + phase)).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(X).shuffle(800).batch(40)

model = DDPM()
model.compile(optimizer=keras.optimizers.Adam(2e-3))
show = Show()
h = model.fit(ds, epochs=16, callbacks=[show], verbose=0)

res = {f"net{i}": np.asarray(v) for i, v in enumerate(model.net.variables)}
res.update({f"ema{i}": np.asarray(v) for i, v in enumerate(model.ema.variables)})
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res["loss"] = np.array(h.history["loss"])
res["gallery"] = np.array(show.gallery)
res["alpha_bar"], res["t_loss"] = np.asarray(model.alpha_bar), np.asarray(model.t_loss)
res["seed_state"] = np.asarray(model.seed.state)
res["final"] = model.sample(4, show.rng)
np.savez("result.npz", **res)
