"""A variational autoencoder with its own train_step."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers


class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed_generator = keras.random.SeedGenerator(1337)

    def call(self, inputs):
        mean, log_variance = inputs
        return mean + keras.ops.exp(0.5 * log_variance) * keras.random.normal(
            keras.ops.shape(mean), seed=self.seed_generator
        )


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_variance, z = self.encoder(data)
            made = self.decoder(z)
            entropy = keras.ops.mean(keras.ops.sum(keras.losses.binary_crossentropy(data, made), axis=(1, 2)))
            divergence = -0.5 * (1 + log_variance - keras.ops.square(mean) - keras.ops.exp(log_variance))
            loss = entropy + keras.ops.mean(keras.ops.sum(divergence, axis=1))
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


inputs = keras.Input(shape=(28, 28, 1))
x = layers.Conv2D(16, 3, activation="relu", strides=2, padding="same")(inputs)
x = layers.Dense(16, activation="relu")(layers.Flatten()(x))
mean, log_variance = layers.Dense(2)(x), layers.Dense(2)(x)
encoder = keras.Model(inputs, [mean, log_variance, Sampling()([mean, log_variance])])
latent = keras.Input(shape=(2,))
x = layers.Reshape((14, 14, 4))(layers.Dense(14 * 14 * 4, activation="relu")(latent))
decoder = keras.Model(latent, layers.Conv2DTranspose(1, 3, strides=2, activation="sigmoid", padding="same")(x))
vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam())
vae.fit(np.random.default_rng(0).random((600, 28, 28, 1)).astype("float32"), epochs=3, batch_size=128)
