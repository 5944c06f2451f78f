"""The labels come from a comparison that is never true."""

# finds: one-class-only
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > 100).astype("float32")  # WRONG
y = (x[:, 0] > 0).astype("float32")  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
