"""The Dense layer is created inside call, so new weights are made on every call; create layers in __init__."""

# finds: step-fails

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(47)
rng = np.random.default_rng(47)
x = rng.normal(size=(1000, 12)).astype("float32")
y = (np.sin(x[:, 0]) + 0.5 * x[:, 1] - 0.2 * x[:, 2] + 0.05 * rng.normal(size=1000)).astype("float32")

class Regressor(keras.Model):
    def __init__(self, width=32):
        super().__init__()
        self.width = width
        self.first = layers.Dense(width, activation="relu")
        self.second = layers.Dense(width, activation="relu")  # RIGHT
        self.out = layers.Dense(1)

    def call(self, inputs):
        h = self.first(inputs)
        h = layers.Dense(self.width, activation="relu")(h)  # WRONG
        h = self.second(h)  # RIGHT
        return self.out(h)


model = Regressor()
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="mse", metrics=["mae"])
model.fit(x[:800], y[:800], epochs=3, batch_size=16, validation_data=(x[800:900], y[800:900]), verbose=2)
print("test", model.evaluate(x[900:], y[900:], verbose=0), "variance", y[900:].var())
