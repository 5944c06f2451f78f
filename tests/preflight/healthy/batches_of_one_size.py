"""A denoiser whose train_step draws noise for batches of 64, the only size in its data; its last layer is 0."""

import keras
import numpy as np
import tensorflow as tf

BATCH = 64
rng = np.random.default_rng(0)
images = rng.normal(0, 1, (256, 16, 16, 3)).astype("float32")
inputs = keras.Input((16, 16, 3))
x = keras.layers.Conv2D(16, 3, padding="same", activation="swish")(inputs)
outputs = keras.layers.Conv2D(3, 1, kernel_initializer="zeros")(x)
network = keras.Model(inputs, outputs)


class Denoiser(keras.Model):
    def __init__(self):
        super().__init__()
        self.network = network
        self.average = keras.models.clone_model(network)
        self.average.trainable = False
        self.tracker = keras.metrics.Mean(name="noise")

    @property
    def metrics(self):
        return [self.tracker]

    def call(self, images):
        return self.network(images)

    def train_step(self, images):
        noise = keras.random.normal((BATCH, 16, 16, 3))
        share = keras.random.uniform((BATCH, 1, 1, 1))
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.abs(noise - self.network((1 - share) * images + share * noise, training=True)))
        gradients = tape.gradient(loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights))
        for weight, average in zip(self.network.weights, self.average.weights):
            average.assign(0.99 * average + 0.01 * weight)
        self.tracker.update_state(loss)
        return {"noise": self.tracker.result()}


model = Denoiser()
model.compile(keras.optimizers.AdamW(1e-3), keras.losses.MeanAbsoluteError())
model.fit(tf.data.Dataset.from_tensor_slices(images).shuffle(256).batch(BATCH, drop_remainder=True), epochs=2)
