"""A filter that lets nothing through."""

# finds: empty-data
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(600)
dataset = dataset.filter(lambda a, b: b > 3)  # WRONG
dataset = dataset.filter(lambda a, b: b >= 0)  # RIGHT
dataset = dataset.batch(32)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=3)
