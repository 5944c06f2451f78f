"""A dictionary within a dictionary, for a model with its own call."""

import keras
import numpy as np


class Scaled(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs["features"]) * inputs["about"]["scale"]


rng = np.random.default_rng(0)
features, scale = rng.normal(size=(256, 3)), rng.random((256, 1)) + 0.5
model = Scaled()
model.compile("adam", "mse")
model.fit({"features": features, "about": {"scale": scale}}, (features[:, :1] - features[:, 1:2]) * scale, epochs=2)
