"""Classes are numbered from 1, as in many CSV files; the output has a unit for each."""

# finds: label-out-of-range
import keras
import numpy as np

rng = np.random.default_rng(0)
measurements = rng.normal(size=(600, 6)).astype("float32")
species = np.digitize(measurements[:, 0] + measurements[:, 1], [-1.0, 0.0, 1.0]) + 1  # WRONG
species = np.digitize(measurements[:, 0] + measurements[:, 1], [-1.0, 0.0, 1.0])  # RIGHT
model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(measurements, species, epochs=5, validation_split=0.2)
