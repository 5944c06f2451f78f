"""The fake samples for the generator step are created outside the GradientTape, so the generator gets no gradients."""

# finds: step-fails

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(41)
rng = np.random.default_rng(41)
angle = rng.uniform(0, 2 * np.pi, 1024)
real_data = np.stack([np.cos(angle), np.sin(angle)], axis=1).astype("float32") + rng.normal(0, 0.05, (1024, 2)).astype("float32")

class GAN(keras.Model):
    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator
        self.g_metric, self.d_metric = keras.metrics.Mean("g_loss"), keras.metrics.Mean("d_loss")

    def compile(self, g_optimizer, d_optimizer):
        super().compile()
        self.g_optimizer, self.d_optimizer = g_optimizer, d_optimizer
        self.bce = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.g_metric, self.d_metric]

    def train_step(self, real):
        n = tf.shape(real)[0]
        fake = self.generator(tf.random.normal((n, 8)), training=True)
        with tf.GradientTape() as tape:
            real_out, fake_out = self.discriminator(real, training=True), self.discriminator(fake, training=True)
            d_loss = self.bce(tf.ones((n, 1)), real_out) + self.bce(tf.zeros((n, 1)), fake_out)
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))
        noise = tf.random.normal((n, 8))
        fake = self.generator(noise, training=True)  # WRONG
        with tf.GradientTape() as tape:
            fake = self.generator(noise, training=True)  # RIGHT
            g_loss = self.bce(tf.ones((n, 1)), self.discriminator(fake, training=True))
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        self.g_metric.update_state(g_loss)
        self.d_metric.update_state(d_loss)
        return {"g_loss": self.g_metric.result(), "d_loss": self.d_metric.result()}


generator = keras.Sequential([keras.Input((8,)), layers.Dense(32), layers.LeakyReLU(), layers.Dense(32), layers.LeakyReLU(), layers.Dense(2)])
discriminator = keras.Sequential([keras.Input((2,)), layers.Dense(32), layers.LeakyReLU(), layers.Dense(32), layers.LeakyReLU(), layers.Dense(1)])
gan = GAN(generator, discriminator)
gan.compile(keras.optimizers.Adam(5e-4, beta_1=0.5), keras.optimizers.Adam(5e-4, beta_1=0.5))
dataset = tf.data.Dataset.from_tensor_slices(real_data).shuffle(1024).batch(64, drop_remainder=True)
gan.fit(dataset, epochs=3, verbose=2)
