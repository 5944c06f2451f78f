"""Prices of 300,000 on a linear output."""

# finds: target-scale
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = 300_000 + 50_000 * (x[:, 0] + x[:, 1])
y = (y - y.mean()) / y.std()  # RIGHT
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y, epochs=5, validation_split=0.2)
