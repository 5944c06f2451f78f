"""One row is shorter than the others."""

# finds: data-raise
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
rows = [rng.normal(size=8).astype("float32") for _ in range(200)]
rows[120] = rows[120][:7]  # WRONG
labels = rng.integers(0, 2, 200)
dataset = tf.data.Dataset.from_generator(
    lambda: zip(rows, labels), output_signature=(tf.TensorSpec((None,), tf.float32), tf.TensorSpec((), tf.int64))
)
dataset = dataset.batch(10)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=2)
