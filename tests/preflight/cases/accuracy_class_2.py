"""keras.metrics.Accuracy() compares the probabilities themselves with the labels, so it stays near 0; use "accuracy" or BinaryAccuracy."""

# finds: wrong-accuracy

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(84)
rng = np.random.default_rng(84)
X = rng.normal(size=(1400, 10)).astype("float32")
y = (X[:, 0] - X[:, 1] * X[:, 2] > 0).astype("float32").reshape(-1, 1)
train = tf.data.Dataset.from_tensor_slices((X[:1100], y[:1100])).shuffle(1100).batch(20)
val = tf.data.Dataset.from_tensor_slices((X[1100:], y[1100:])).batch(100)

metric = keras.metrics.Accuracy(name="acc")  # WRONG
metric = keras.metrics.BinaryAccuracy(name="acc")  # RIGHT
model = keras.Sequential([
    keras.Input((10,)),
    layers.Dense(48, activation="relu"),
    layers.Dense(24, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=[metric])
model.fit(train, validation_data=val, epochs=3, verbose=2)
