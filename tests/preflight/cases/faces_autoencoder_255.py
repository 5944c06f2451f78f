"""The pictures are still 0..255 while the decoder ends in a sigmoid (0..1), so the autoencoder can never reach them; divide by 255."""

# finds: bounded-output, image-range

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(12)
rng = np.random.default_rng(12)
yy, xx = np.mgrid[0:16, 0:16]
cx, cy, size = rng.uniform(4, 12, (3, 800))
pics = 255 * np.exp(-((xx - cx[:, None, None]) ** 2 + (yy - cy[:, None, None]) ** 2) / (1.5 * size[:, None, None]))
pics = pics[..., None].astype("float32")
pics = pics / 255.0  # RIGHT
train, test = pics[:700], pics[700:]

encoder = keras.Sequential([
    keras.Input((16, 16, 1)),
    layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
    layers.Flatten(),
    layers.Dense(16, activation="relu"),
], name="encoder")
decoder = keras.Sequential([
    keras.Input((16,)),
    layers.Dense(8 * 8 * 16, activation="relu"),
    layers.Reshape((8, 8, 16)),
    layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
    layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
], name="decoder")
auto = keras.Sequential([encoder, decoder])
auto.compile(optimizer=keras.optimizers.Adam(3e-3), loss="mse")
auto.fit(train, train, epochs=3, batch_size=16, validation_data=(test, test), verbose=2)
rec = auto.predict(test, verbose=0)
print("unexplained", np.mean((rec - test) ** 2) / np.var(test))
