"""Healthy: a variational autoencoder whose whole loss is given by add_loss, compiled without loss and fitted without y."""
import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(102)
rng = np.random.default_rng(102)
n = 1200
cx, cy = rng.uniform(3, 9, (2, n, 1, 1))
yy, xx = np.mgrid[:12, :12]
X = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 6.0).reshape(n, 144).astype("float32")


class VAE(keras.Model):
    def __init__(self, latent=2):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(2 * latent)])
        self.decoder = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(144)])
        self.noise = keras.random.SeedGenerator(7)

    def call(self, x):
        mean, log_var = ops.split(self.encoder(x), 2, axis=-1)
        z = mean + ops.exp(0.5 * log_var) * keras.random.normal(ops.shape(mean), seed=self.noise)
        logits = self.decoder(z)
        rec = ops.sum(ops.binary_crossentropy(x, logits, from_logits=True), axis=-1)
        kl = -0.5 * ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=-1)
        self.add_loss(ops.mean(rec + kl))
        return ops.sigmoid(logits)


vae = VAE()
vae.compile(optimizer=keras.optimizers.Adam(2e-3))
vae.fit(X[:1000], epochs=3, batch_size=25, validation_data=(X[1000:], None), verbose=2)
