"""The denoising autoencoder is given the noisy images as its target as well, so it learns to reproduce the noise."""

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)
yy, xx = np.mgrid[:16, :16]
cx, cy = rng.integers(4, 12, 1000), rng.integers(4, 12, 1000)
clean = np.exp(-((xx - cx[:, None, None]) ** 2 + (yy - cy[:, None, None]) ** 2) / 8.0)
clean = clean[..., None].astype("float32")
noisy = np.clip(clean + rng.normal(0, 0.3, clean.shape), 0, 1).astype("float32")
clean_train, clean_test = clean[:800], clean[800:]
noisy_train, noisy_test = noisy[:800], noisy[800:]

encoder = keras.Sequential([
    keras.Input((16, 16, 1)),
    layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
])
decoder = keras.Sequential([
    layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
])
inputs = keras.Input((16, 16, 1))
autoencoder = keras.Model(inputs, decoder(encoder(inputs)))
autoencoder.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy")
autoencoder.fit(noisy_train, noisy_train, validation_data=(noisy_test, noisy_test), epochs=3, batch_size=16, verbose=2)  # WRONG
autoencoder.fit(noisy_train, clean_train, validation_data=(noisy_test, clean_test), epochs=3, batch_size=16, verbose=2)  # RIGHT
print("error against clean images:", np.mean((autoencoder.predict(noisy_test, verbose=0) - clean_test) ** 2))
