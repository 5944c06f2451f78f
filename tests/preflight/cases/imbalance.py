"""One percent of the samples are fraud, and the metric is accuracy."""

# finds: imbalance
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(4000, 8)).astype("float32")
y = (x[:, 0] > 2.3).astype("float32")
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)  # WRONG
model.fit(x, y, epochs=3, class_weight={0: 1.0, 1: 50.0})  # RIGHT
