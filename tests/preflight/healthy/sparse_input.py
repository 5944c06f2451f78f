"""Sparse features from a dataset."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
dense = (rng.random((256, 40)) < 0.1).astype("float32")
labels = (dense.sum(axis=1) > 4).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(dense), labels)).shuffle(256).batch(32)
model = keras.Sequential([keras.Input((40,), sparse=True), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
