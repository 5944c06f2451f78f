"""A generator that ends after one epoch."""

# finds: runs-out-of-data
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])


def batches():
    for start in range(0, 600, 30):  # WRONG
        yield x[start : start + 30], y[start : start + 30]  # WRONG
    while True:  # RIGHT
        rows = rng.integers(0, 600, 30)  # RIGHT
        yield x[rows], y[rows]  # RIGHT


model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(batches(), epochs=5, steps_per_epoch=20)
