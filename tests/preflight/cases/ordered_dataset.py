"""One class after the other, and a shuffle buffer of 10."""

# finds: ordered-labels
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(2000, 8)).astype("float32") + np.repeat(np.arange(4), 500)[:, None]
y = np.repeat(np.arange(4), 500)
dataset = tf.data.Dataset.from_tensor_slices((x, y))
dataset = dataset.shuffle(10)  # WRONG
dataset = dataset.shuffle(2000)  # RIGHT
dataset = dataset.batch(32)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
