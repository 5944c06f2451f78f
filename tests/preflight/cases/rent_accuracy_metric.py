"""Accuracy is meaningless for a regression (it counts exact hits and stays near 0); use mean absolute error or R2."""

# finds: accuracy-of-regression

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(53)
rng = np.random.default_rng(53)
n = 1200
size, floor, centre = rng.uniform(20, 150, n), rng.integers(0, 10, n), rng.uniform(0, 15, n)
rent = 300 + 9 * size + 10 * floor - 25 * centre + rng.normal(0, 40, n)
X = np.column_stack([size, floor, centre])
X = (X - X[:900].mean(axis=0)) / X[:900].std(axis=0)
y = ((rent - rent[:900].mean()) / rent[:900].std())[:, None]

inputs = keras.Input((3,))
h = layers.Dense(32, activation="relu")(inputs)
h = layers.Dense(16, activation="relu")(h)
outputs = layers.Dense(1)(h)
model = keras.Model(inputs, outputs)
metrics = ["accuracy"]  # WRONG
metrics = ["mae", keras.metrics.R2Score(name="r2")]  # RIGHT
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="mse", metrics=metrics)
model.fit(X[:900], y[:900], epochs=3, batch_size=16, validation_data=(X[900:1050], y[900:1050]), verbose=2)
print("test", model.evaluate(X[1050:], y[1050:], return_dict=True, verbose=0))
