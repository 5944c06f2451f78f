"""Targets of -1 for missing measurements, with a weight of 0."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = 1 / (1 + np.exp(-x[:, 0] - x[:, 1]))
measured = rng.random(600) < 0.8
y = np.where(measured, y, -1).astype("float32")
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "mse")
model.fit(x, y, sample_weight=measured.astype("float32"), epochs=5)
