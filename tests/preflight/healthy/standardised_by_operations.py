"""A table of ages and incomes, from which the graph takes the mean and divides by the deviation, in a nested model."""

import keras
import numpy as np

rng = np.random.default_rng(0)
table = np.stack([rng.normal(40, 12, 512), rng.normal(50000, 20000, 512)], axis=1).astype("float32")
target = (table[:, 1] > 50000).astype("float32")
raw = keras.Input((2,))
prepare = keras.Model(raw, (raw - table.mean(axis=0)) / table.std(axis=0))
inputs = keras.Input((2,))
x = keras.layers.Dense(16, activation="relu")(prepare(inputs))
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(table, target, epochs=2)
