# Autoencoder whose KL weight, dropout rate and noise level are plain Python attributes changed by a callback every epoch (as often seen; what the compiled train function makes of it is up to Keras).
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(55)

n = 900
z = np.random.randn(n, 2)
x = np.tanh(z @ np.random.randn(2, 12) + 0.3 * np.random.randn(12)) + 0.1 * np.random.randn(n, 12)
x = x.astype("float32")
x_train, x_val = x[:750], x[750:]


class AE(keras.Model):
    def __init__(self, latent=2):
        super().__init__()
        self.latent = latent
        self.kl_weight = 0.05
        self.noise = layers.GaussianNoise(0.3)
        self.enc = layers.Dense(24, activation="relu")
        self.drop = layers.Dropout(0.3)
        self.stats = layers.Dense(2 * latent)
        self.dec = keras.Sequential([layers.Dense(24, activation="relu"), layers.Dense(12)])
        self.kl_tracker = keras.metrics.Mean(name="kl")
        self.rec_tracker = keras.metrics.Mean(name="rec")

    @property
    def metrics(self):
        return [self.kl_tracker, self.rec_tracker]

    def call(self, x, training=False):
        h = self.drop(self.enc(self.noise(x, training=training)), training=training)
        mean, logvar = tf.split(self.stats(h), 2, axis=-1)
        code = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean)) if training else mean
        return self.dec(code), mean, logvar

    def losses_of(self, x, training):
        rec, mean, logvar = self(x, training=training)
        rec_loss = tf.reduce_mean(tf.reduce_sum(tf.square(x - rec), -1))
        kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + logvar - mean**2 - tf.exp(logvar), -1))
        return rec_loss, kl

    def train_step(self, x):
        with tf.GradientTape() as tape:
            rec, kl = self.losses_of(x, True)
            loss = rec + self.kl_weight * kl
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.kl_tracker.update_state(kl)
        self.rec_tracker.update_state(rec)
        return {"loss": loss, "kl": self.kl_tracker.result(), "rec": self.rec_tracker.result()}

    def test_step(self, x):
        rec, kl = self.losses_of(x, False)
        return {"loss": rec + self.kl_weight * kl}


class Anneal(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.model.kl_weight = min(1.0, 0.05 + 0.1 * epoch)
        self.model.drop.rate = max(0.0, 0.3 - 0.03 * epoch)
        self.model.noise.stddev = 0.3 * 0.8**epoch
        if epoch == 6:
            self.model.enc.trainable = False  # "frozen" from here


model = AE()
model.compile(optimizer=keras.optimizers.Adam(4e-3))
hist = model.fit(x_train, epochs=11, batch_size=32, shuffle=True, validation_data=(x_val,), callbacks=[Anneal()], verbose=2)

np.savez(
    "result.npz",
    **{f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{"hist_" + k: np.array([float(q) for q in v]) for k, v in hist.history.items()},
    attributes=np.array([model.kl_weight, model.drop.rate, model.noise.stddev, float(model.enc.trainable)]),
    codes=np.asarray(model(x_val[:30])[1]),
    next_noise=tf.random.normal((3,)).numpy(),
)
