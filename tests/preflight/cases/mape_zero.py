"""A percentage error for targets that are 0."""

# finds: loss-needs-range
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.maximum(0, x[:, 0] * 2).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mape")  # WRONG
model.compile("adam", "mae")  # RIGHT
model.fit(x, y, epochs=5, validation_split=0.2)
