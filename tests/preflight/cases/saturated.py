"""tanh on values of 10,000."""

# finds: saturated-layers, feature-scale
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(0, 10_000, (600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
x = x / 10_000  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
