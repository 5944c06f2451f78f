"""A dataset of single samples, for a model without an input."""

# finds: missing-batch-dimension
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(600)
dataset = dataset.batch(32)  # RIGHT
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
