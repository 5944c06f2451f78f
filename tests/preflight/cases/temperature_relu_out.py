"""The output layer has a relu, so the model can never predict the temperatures below zero that fill half of the targets."""

# finds: bounded-output

import numpy as np
import keras
from keras import layers, optimizers

keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)
n = 1500
day = rng.integers(0, 365, n)
height = rng.uniform(0, 3, n)
cloud = rng.uniform(0, 1, n)
temp = 4 - 9 * np.cos(2 * np.pi * day / 365) - 3 * height - 2 * cloud + rng.normal(0, 0.8, n)
x = np.stack([np.cos(2 * np.pi * day / 365), np.sin(2 * np.pi * day / 365), height / 3, cloud], 1).astype("float32")
y = temp.astype("float32")

model = keras.Sequential([
    layers.Input((4,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(32, activation="relu"),
])
model.add(layers.Dense(1, activation="relu"))  # WRONG
model.add(layers.Dense(1))  # RIGHT
model.compile(optimizer=optimizers.Adam(0.005), loss="mse", metrics=["mae"])
model.fit(x[:1200], y[:1200], epochs=3, batch_size=16, validation_split=0.1, verbose=2)
print("coldest", y[1200:].min(), "coldest predicted", model.predict(x[1200:], verbose=0).min())
print("test", model.evaluate(x[1200:], y[1200:], verbose=0))
