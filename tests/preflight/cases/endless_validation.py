"""Validation data that repeats forever."""

# finds: endless-epoch
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
dataset = tf.data.Dataset.from_tensor_slices((x[:500], y[:500])).shuffle(500).batch(32)
held = tf.data.Dataset.from_tensor_slices((x[500:], y[500:])).batch(32)
held = held.repeat()  # WRONG
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3, validation_data=held)
