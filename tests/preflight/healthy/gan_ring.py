"""Healthy: a GAN as a subclassed model with two optimizers, trained on points (no labels)."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(101)
rng = np.random.default_rng(101)
a = rng.uniform(0, 2 * np.pi, 1600)
points = np.stack([np.cos(a), np.sin(a)], 1) + rng.normal(0, 0.05, (1600, 2))
points = points.astype("float32")


class GAN(keras.Model):
    def __init__(self):
        super().__init__()
        self.gen = keras.Sequential([keras.Input((4,)), layers.Dense(32), layers.LeakyReLU(0.2), layers.Dense(32), layers.LeakyReLU(0.2), layers.Dense(2)])
        self.disc = keras.Sequential([keras.Input((2,)), layers.Dense(32), layers.LeakyReLU(0.2), layers.Dense(32), layers.LeakyReLU(0.2), layers.Dense(1)])
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)
        self.g_loss, self.d_loss = keras.metrics.Mean(name="g_loss"), keras.metrics.Mean(name="d_loss")

    def compile(self, g_opt, d_opt, **kwargs):
        super().compile(**kwargs)
        self.g_opt, self.d_opt = g_opt, d_opt

    @property
    def metrics(self):
        return [self.g_loss, self.d_loss]

    def train_step(self, real):
        n = tf.shape(real)[0]
        with tf.GradientTape() as gt, tf.GradientTape() as dt:
            fake = self.gen(tf.random.normal((n, 4)), training=True)
            out_real, out_fake = self.disc(real, training=True), self.disc(fake, training=True)
            g = self.bce(tf.ones_like(out_fake), out_fake)
            d = self.bce(tf.ones_like(out_real) * 0.9, out_real) + self.bce(tf.zeros_like(out_fake), out_fake)
        self.g_opt.apply_gradients(zip(gt.gradient(g, self.gen.trainable_variables), self.gen.trainable_variables))
        self.d_opt.apply_gradients(zip(dt.gradient(d, self.disc.trainable_variables), self.disc.trainable_variables))
        self.g_loss.update_state(g)
        self.d_loss.update_state(d)
        return {m.name: m.result() for m in self.metrics}


gan = GAN()
gan.compile(keras.optimizers.Adam(1e-3, beta_1=0.5), keras.optimizers.Adam(1e-3, beta_1=0.5))
ds = tf.data.Dataset.from_tensor_slices(points).shuffle(1600).batch(64, drop_remainder=True)
gan.fit(ds, epochs=3, verbose=2)
