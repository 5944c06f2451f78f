"""A logarithm of 0 in the pipeline."""

# finds: nan-in-input
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.integers(0, 50, (600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(600)
dataset = dataset.map(lambda a, b: (tf.math.log(a), b))  # WRONG
dataset = dataset.map(lambda a, b: (tf.math.log1p(a), b))  # RIGHT
dataset = dataset.batch(32)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
