"""Feeds a network in small prefetched batches, whose weights alone need more memory than all of its batches."""

import keras
import tensorflow as tf
from pictures import images, labels

layers = [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3_000), keras.layers.Dense(3_000)]
model = keras.Sequential([*layers, keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
data = tf.data.Dataset.from_tensor_slices((images, labels)).batch(64).prefetch(tf.data.AUTOTUNE)
model.fit(data, verbose=0)
