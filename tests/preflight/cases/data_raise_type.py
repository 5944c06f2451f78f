"""A generator yields text where numbers were declared."""

# finds: data-raise
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
rows = [(rng.normal(size=4).astype("float32"), 1) for _ in range(100)]
rows[30] = (rows[30][0], "cat")  # WRONG
dataset = tf.data.Dataset.from_generator(
    lambda: iter(rows), output_signature=(tf.TensorSpec((4,), tf.float32), tf.TensorSpec((), tf.int64))
)
dataset = dataset.map(lambda a, b: (a, tf.cast(a[0] > 0, tf.float32))).batch(10)
model = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=2)
