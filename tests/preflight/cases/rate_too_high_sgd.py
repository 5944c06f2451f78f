"""A rate of 50 with SGD."""

# finds: learning-rate, diverges, loss-not-finite
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] * 2 - x[:, 1]).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(50.0), "mse")  # WRONG
model.compile(keras.optimizers.SGD(0.01), "mse")  # RIGHT
model.fit(x, y, epochs=5, validation_split=0.2)
