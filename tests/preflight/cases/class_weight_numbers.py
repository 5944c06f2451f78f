"""Class weights numbered from 1."""

# finds: class-weights
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
weights = {1: 1.0, 2: 4.0}  # WRONG
weights = {0: 1.0, 1: 4.0}  # RIGHT
model.fit(x, y, class_weight=weights, epochs=3)
