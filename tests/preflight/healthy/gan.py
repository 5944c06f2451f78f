"""A GAN with its own train_step and two optimizers."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

discriminator = keras.Sequential(
    [
        keras.Input((28, 28, 1)),
        layers.Conv2D(16, 3, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.GlobalMaxPooling2D(),
        layers.Dense(1),
    ]
)
generator = keras.Sequential(
    [
        keras.Input((32,)),
        layers.Dense(7 * 7 * 32),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Reshape((7, 7, 32)),
        layers.Conv2DTranspose(32, 4, strides=2, padding="same"),
        layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="sigmoid"),
    ]
)


class GAN(keras.Model):
    def __init__(self, discriminator, generator, latent):
        super().__init__()
        self.discriminator, self.generator, self.latent = discriminator, generator, latent

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    def train_step(self, real):
        size = tf.shape(real)[0]
        fake = self.generator(tf.random.normal((size, self.latent)))
        labels = tf.concat([tf.ones((size, 1)), tf.zeros((size, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(tf.concat([fake, real], axis=0)))
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))
        with tf.GradientTape() as tape:
            judged = self.discriminator(self.generator(tf.random.normal((size, self.latent))))
            g_loss = self.loss_fn(tf.zeros((size, 1)), judged)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        return {"d_loss": d_loss, "g_loss": g_loss}


digits = np.random.default_rng(0).random((512, 28, 28, 1)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(digits).shuffle(buffer_size=512).batch(64)
gan = GAN(discriminator, generator, 32)
gan.compile(
    d_optimizer=keras.optimizers.Adam(learning_rate=0.0003),
    g_optimizer=keras.optimizers.Adam(learning_rate=0.0003),
    loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
)
gan.fit(dataset, epochs=1)
