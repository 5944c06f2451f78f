"""Fuel efficiency: a normalisation layer, then a small network."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
features = np.stack([rng.integers(3, 9, 400), rng.normal(200, 100, 400), rng.normal(3000, 800, 400)], 1)
mpg = (50 - features[:, 2] / 100 + rng.normal(0, 2, 400)).astype("float32")
normalizer = layers.Normalization(axis=-1)
normalizer.adapt(features)
model = keras.Sequential(
    [normalizer, layers.Dense(64, activation="relu"), layers.Dense(64, activation="relu"), layers.Dense(1)]
)
model.compile(loss="mean_absolute_error", optimizer=keras.optimizers.Adam(0.001))
model.fit(features, mpg, validation_split=0.2, verbose=0, epochs=100)
