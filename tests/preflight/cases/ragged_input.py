"""Sentences of different lengths, not padded."""

# finds: ragged-input
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
rows = [rng.integers(1, 100, n).tolist() for n in rng.integers(3, 12, 200)]
labels = rng.integers(0, 2, 200)
x = tf.ragged.constant(rows)
x = x.to_tensor(shape=(None, 12))  # RIGHT
model = keras.Sequential(
    [keras.layers.Embedding(100, 8), keras.layers.Flatten(), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
dataset = tf.data.Dataset.from_tensor_slices((x, labels)).batch(20)
model.fit(dataset, epochs=2)
