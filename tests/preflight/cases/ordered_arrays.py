"""Sorted labels with shuffle=False."""

# finds: ordered-labels
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
order = np.argsort(y)
x, y = x[order], y[order]
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3, shuffle=False, batch_size=16)  # WRONG
model.fit(x, y, epochs=3, batch_size=16)  # RIGHT
