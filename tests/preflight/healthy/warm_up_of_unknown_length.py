"""A rate that rises from 0, over data of unknown length."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
dataset = tf.data.Dataset.from_generator(
    lambda: zip(x, y), output_signature=(tf.TensorSpec((8,), tf.float32), tf.TensorSpec((), tf.float32))
).batch(32)
rate = keras.optimizers.schedules.CosineDecay(0.0, 1000, warmup_target=1e-3, warmup_steps=100)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=5)
