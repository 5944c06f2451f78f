"""A decay rate above 1."""

# finds: schedule-rises
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(640, 6)).astype("float32")
y = x @ rng.normal(size=(6, 1)).astype("float32")
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
rate = keras.optimizers.schedules.ExponentialDecay(1e-3, decay_steps=100, decay_rate=1.5)  # WRONG
rate = keras.optimizers.schedules.ExponentialDecay(1e-3, decay_steps=100, decay_rate=0.9)  # RIGHT
model.compile(keras.optimizers.Adam(rate), "mse")
model.fit(x, y, epochs=20, validation_split=0.2)
