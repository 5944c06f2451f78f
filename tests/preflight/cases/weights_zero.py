"""All sample weights are 0."""

# finds: sample-weights
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
weights = np.zeros(600, "float32")  # WRONG
weights = np.ones(600, "float32")  # RIGHT
model.fit(x, y, sample_weight=weights, epochs=3)
