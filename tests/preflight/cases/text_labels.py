"""Labels that are words."""

# finds: text-labels
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
y = np.where(y > 0, "spam", "ham")  # WRONG
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, batch_size=16)
