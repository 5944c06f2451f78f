"""The sampling layer draws its noise with numpy, which happens once when the graph is traced: the 'random' noise is the same constant in every step."""

# finds: frozen-random

import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(49)
rng = np.random.default_rng(49)
z = rng.normal(size=(1280, 2))
X = 1 / (1 + np.exp(-(z @ rng.normal(size=(2, 20)) * 4)))
X = X.astype("float32")

class Sampling(layers.Layer):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seed = keras.random.SeedGenerator(1)

    def call(self, mean, log_var):
        noise = np.random.normal(size=(1, 2)).astype("float32")  # WRONG
        noise = keras.random.normal(ops.shape(mean), seed=self.seed)  # RIGHT
        return mean + ops.exp(0.5 * log_var) * noise


class VAE(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(32, activation="relu")
        self.mean, self.log_var = layers.Dense(2), layers.Dense(2)
        self.sample = Sampling()
        self.decoder = keras.Sequential([layers.Dense(32, activation="relu"), layers.Dense(20, activation="sigmoid")])

    def call(self, x):
        h = self.hidden(x)
        mean, log_var = self.mean(h), self.log_var(h)
        kl = -0.5 * ops.sum(1 + log_var - ops.square(mean) - ops.exp(log_var), axis=1)
        self.add_loss(ops.mean(kl) / 20)
        return self.decoder(self.sample(mean, log_var))


vae = VAE()
vae.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy")
vae.fit(X[:1024], X[:1024], validation_data=(X[1024:], X[1024:]), epochs=3, batch_size=32, verbose=2)
