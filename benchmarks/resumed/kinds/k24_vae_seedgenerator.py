# VAE with keras.random and a SeedGenerator in a Sampling layer, cyclical KL weight set by a callback, free-bits controller with a running average in the model.
import os

import numpy as np
import keras
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2400)


class Sampling(layers.Layer):
    def __init__(self, **kw):
        super().__init__(**kw)
        self.seed_generator = keras.random.SeedGenerator()
        self.draws = self.add_weight(shape=(), dtype="int32", initializer="zeros", trainable=False, name="draws")

    def call(self, inputs):
        mean, log_var = inputs
        self.draws.assign_add(1)
        eps = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(0.5 * log_var) * eps


class VAE(keras.Model):
    def __init__(self, dim, latent=3):
        super().__init__()
        self.enc = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dropout(0.1), layers.Dense(2 * latent)])
        self.dec = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(dim)])
        self.sampling = Sampling()
        self.kl_weight = self.add_weight(shape=(), initializer="zeros", trainable=False, name="kl_weight")
        self.kl_avg = self.add_weight(shape=(latent,), initializer="ones", trainable=False, name="kl_avg")
        self.total = keras.metrics.Mean(name="loss")
        self.kl_metric = keras.metrics.Mean(name="kl")

    @property
    def metrics(self):
        return [self.total, self.kl_metric]

    def call(self, x, training=False):
        m, lv = ops.split(self.enc(x, training=training), 2, axis=-1)
        z = self.sampling((m, lv))
        return self.dec(z), m, lv

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        rec, m, lv = y_pred
        rec_loss = ops.mean(ops.sum(ops.square(x - rec), axis=-1))
        kl = ops.mean(-0.5 * (1 + lv - ops.square(m) - ops.exp(lv)), axis=0)
        if training:
            self.kl_avg.assign(0.95 * self.kl_avg + 0.05 * kl)
        # dimensions whose running KL is low are not pushed down any more
        mask = ops.cast(self.kl_avg > 0.1, "float32")
        kl_loss = ops.sum(kl * mask)
        loss = rec_loss + self.kl_weight * kl_loss
        self.total.update_state(loss)
        self.kl_metric.update_state(ops.sum(kl))
        return loss


class CyclicKL(keras.callbacks.Callback):
    def __init__(self, period):
        super().__init__()
        self.period = period
        self.t = 0
        self.peak = 1.0

    def on_train_batch_begin(self, batch, logs=None):
        phase = (self.t % self.period) / self.period
        self.model.kl_weight.assign(self.peak * min(1.0, 2 * phase))
        self.t += 1
        if self.t % self.period == 0:
            self.peak *= np.random.uniform(0.8, 1.0)
            self.period = int(self.period * 1.2)


factors = np.random.laplace(size=(1000, 3))
X = (np.tanh(factors @ np.random.randn(3, 15)) + 0.1 * np.random.randn(1000, 15)).astype("float32")
train, test = X[:900], X[900:]

vae = VAE(15)
vae.compile(keras.optimizers.Adamax(5e-3))
kl = CyclicKL(40)
h = vae.fit(train, epochs=14, batch_size=36, callbacks=[kl], verbose=0)

res = {f"v{i}": np.asarray(v) for i, v in enumerate(vae.variables)}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(vae.optimizer.variables)})
res.update({f"h_{k}": np.array(v) for k, v in h.history.items()})
res["kl"] = np.array([kl.period, kl.t, kl.peak])
res["samples"] = np.asarray(vae.dec(keras.random.normal((8, 3), seed=vae.sampling.seed_generator)))
res["rec"] = vae.predict(test[:10], verbose=0)[0]
np.savez("result.npz", **res)
