"""Healthy: contrastive pretraining without labels (two noisy views, NT-Xent), labels made inside the loss step."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(103)
rng = np.random.default_rng(103)
centers = rng.normal(0, 1, (8, 16))
X = (centers[rng.integers(0, 8, 1280)] + rng.normal(0, 0.4, (1280, 16))).astype("float32")


class SimCLR(keras.Model):
    def __init__(self, temperature=0.2):
        super().__init__()
        self.temperature = temperature
        self.noise = layers.GaussianNoise(0.2)
        self.drop = layers.Dropout(0.1)
        self.encoder = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(32, activation="relu")])
        self.project = layers.Dense(16)
        self.loss_metric = keras.metrics.Mean(name="loss")
        self.acc = keras.metrics.SparseCategoricalAccuracy(name="match")

    @property
    def metrics(self):
        return [self.loss_metric, self.acc]

    def call(self, x, training=None):
        x = self.drop(self.noise(x, training=training), training=training)
        return tf.math.l2_normalize(self.project(self.encoder(x)), axis=1)

    def train_step(self, x):
        targets = tf.range(tf.shape(x)[0])
        with tf.GradientTape() as tape:
            a, b = self(x, training=True), self(x, training=True)
            sim = tf.matmul(a, b, transpose_b=True) / self.temperature
            ce = keras.losses.sparse_categorical_crossentropy
            loss = tf.reduce_mean(ce(targets, sim, from_logits=True) + ce(targets, tf.transpose(sim), from_logits=True)) / 2
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        self.loss_metric.update_state(loss)
        self.acc.update_state(targets, sim)
        return {m.name: m.result() for m in self.metrics}


model = SimCLR()
model.compile(optimizer=keras.optimizers.Adam(2e-3))
model.fit(tf.data.Dataset.from_tensor_slices(X).shuffle(1280).batch(64, drop_remainder=True), epochs=3, verbose=2)
