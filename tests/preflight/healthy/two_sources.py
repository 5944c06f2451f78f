"""Training and validation data from separate sources, each shuffled and truncated."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, held = rng.normal(size=(600, 8)).astype("float32"), rng.normal(size=(200, 8)).astype("float32")
train = tf.data.Dataset.from_tensor_slices((x, x[:, 0] > 0)).shuffle(600).take(500).batch(32)
validation = tf.data.Dataset.from_tensor_slices((held, held[:, 0] > 0)).shuffle(200).take(100).batch(32)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=validation, epochs=5)
