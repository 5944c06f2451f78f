"""drop_remainder with fewer samples than a batch."""

# finds: empty-data
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
x, y = x[:100], y[:100]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(100)
dataset = dataset.batch(128, drop_remainder=True)  # WRONG
dataset = dataset.batch(32, drop_remainder=True)  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
