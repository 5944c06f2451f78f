"""take and skip on a dataset that is reshuffled in each epoch."""

# finds: split-after-reshuffle
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
dataset = tf.data.Dataset.from_tensor_slices((x, y))
dataset = dataset.shuffle(600)  # WRONG
dataset = dataset.shuffle(600, seed=1, reshuffle_each_iteration=False)  # RIGHT
held, train = dataset.take(100).batch(32), dataset.skip(100).batch(32)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=3, validation_data=held)
