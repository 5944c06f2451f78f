"""The generator of a GAN, trained through a frozen discriminator: all targets are 1."""

import keras
import numpy as np

rng = np.random.default_rng(0)
discriminator = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
generator = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(8, activation="tanh")]
)
discriminator.trainable = False
noise = keras.Input((4,))
combined = keras.Model(noise, discriminator(generator(noise)))
combined.compile("adam", "binary_crossentropy")
combined.fit(rng.normal(size=(320, 4)).astype("float32"), np.ones((320, 1), "float32"), epochs=1)
