# WGAN-GP with two optimizers and n_critic inner updates, tf.random.normal inside train_step, instance noise annealed by a variable, samples drawn by np.random in a callback.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(23)

LATENT = 6
k = np.random.randint(0, 8, 1200)
ring = np.stack([np.cos(k * np.pi / 4), np.sin(k * np.pi / 4)], 1) * 2 + np.random.normal(0, 0.08, (1200, 2))
ring = ring.astype("float32")


def make_generator():
    return keras.Sequential(
        [keras.Input((LATENT,)), layers.Dense(48), layers.BatchNormalization(), layers.ReLU(), layers.Dense(48, "relu"), layers.Dense(2)]
    )


def make_critic():
    return keras.Sequential(
        [keras.Input((2,)), layers.Dense(48), layers.LeakyReLU(0.2), layers.Dense(48), layers.LeakyReLU(0.2), layers.Dense(1)]
    )


class WGANGP(keras.Model):
    def __init__(self, n_critic=3, gp=5.0):
        super().__init__()
        self.generator, self.critic = make_generator(), make_critic()
        self.n_critic, self.gp = n_critic, gp
        self.noise_std = tf.Variable(0.3, trainable=False)

    def compile(self, g_opt, d_opt):
        super().compile()
        self.g_opt, self.d_opt = g_opt, d_opt

    def call(self, z):
        return self.generator(z)

    def train_step(self, real):
        b = tf.shape(real)[0]
        for _ in range(self.n_critic):
            z = tf.random.normal((b, LATENT))
            with tf.GradientTape() as tape:
                fake = self.generator(z, training=True)
                r = real + tf.random.normal(tf.shape(real)) * self.noise_std
                f = fake + tf.random.normal(tf.shape(fake)) * self.noise_std
                d_loss = tf.reduce_mean(self.critic(f)) - tf.reduce_mean(self.critic(r))
                a = tf.random.uniform((b, 1))
                mid = a * r + (1 - a) * f
                with tf.GradientTape() as t2:
                    t2.watch(mid)
                    c = self.critic(mid)
                norm = tf.sqrt(tf.reduce_sum(tf.square(t2.gradient(c, mid)), 1) + 1e-8)
                d_loss += self.gp * tf.reduce_mean(tf.square(norm - 1.0))
            self.d_opt.apply(tape.gradient(d_loss, self.critic.trainable_variables), self.critic.trainable_variables)
        with tf.GradientTape() as tape:
            g_loss = -tf.reduce_mean(self.critic(self.generator(tf.random.normal((b, LATENT)), training=True)))
        self.g_opt.apply(tape.gradient(g_loss, self.generator.trainable_variables), self.generator.trainable_variables)
        self.noise_std.assign(self.noise_std * 0.99)
        return {"d_loss": d_loss, "g_loss": g_loss}


class Sampler(keras.callbacks.Callback):
    def __init__(self, n=64):
        super().__init__()
        self.n = n
        self.images = []
        self.coverage = []

    def on_epoch_end(self, epoch, logs=None):
        z = np.random.normal(size=(self.n, LATENT)).astype("float32")
        pts = self.model.predict(z, verbose=0)
        self.images.append(pts)
        modes = np.unique(np.round(np.arctan2(pts[:, 1], pts[:, 0]) / (np.pi / 4)).astype(int) % 8)
        self.coverage.append(len(modes))
        if len(self.coverage) > 1 and self.coverage[-1] <= self.coverage[-2]:
            # stagnation: some more noise again
            self.model.noise_std.assign_add(0.02 * np.random.rand())


gan = WGANGP()
gan.compile(keras.optimizers.Adam(2e-3, beta_1=0.0, beta_2=0.9), keras.optimizers.RMSprop(1e-3))
ds = tf.data.Dataset.from_tensor_slices(ring).shuffle(1200).batch(48, drop_remainder=True)
sampler = Sampler()
hist = gan.fit(ds, epochs=10, callbacks=[sampler], verbose=0)

out = {}
for name, part in [("g", gan.generator), ("d", gan.critic), ("gopt", gan.g_opt), ("dopt", gan.d_opt)]:
    for i, v in enumerate(part.variables):
        out[f"{name}{i}"] = np.asarray(v)
out["noise_std"] = gan.noise_std.numpy()
out["images"] = np.array(sampler.images)
out["coverage"] = np.array(sampler.coverage)
out.update({k2: np.array(v) for k2, v in hist.history.items()})
out["np_next"] = np.random.rand(3)
out["pred"] = gan.predict(np.ones((4, LATENT), "float32"), verbose=0)
np.savez("result.npz", **out)
