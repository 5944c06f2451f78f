"""A slice that takes everything for validation."""

# finds: empty-data
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 8)).astype("float32")
y = x[:, 0] + x[:, 1]
held = 500  # WRONG
held = 50  # RIGHT
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x[held:], y[held:], epochs=3, validation_data=(x[:held], y[:held]))
