"""batch_size has no effect with a dataset."""

# finds: arguments-for-dataset
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(600)
dataset = dataset.batch(1)  # WRONG
dataset = dataset.batch(64)  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(dataset, batch_size=64, epochs=3)  # WRONG
model.fit(dataset, epochs=3)  # RIGHT
