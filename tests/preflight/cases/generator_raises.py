"""A generator that fails before its first batch."""

# finds: data-raise
import keras
import numpy as np

rng = np.random.default_rng(0)


def batches():
    raise FileNotFoundError("data/train.csv")  # WRONG
    while True:
        x = rng.normal(size=(16, 4)).astype("float32")
        yield x, x[:, 0] + x[:, 1]


model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(batches(), epochs=2, steps_per_epoch=5)
