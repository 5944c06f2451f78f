"""The target column was left in."""

# finds: target-in-features
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] * 2 - x[:, 1]).astype("float32")
x = np.concatenate([x, y[:, None] * 3 + 1], axis=1)  # WRONG
x = np.concatenate([x, x[:, :1] ** 2], axis=1)  # RIGHT
model = keras.Sequential([keras.Input((9,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y, epochs=5, validation_split=0.2)
