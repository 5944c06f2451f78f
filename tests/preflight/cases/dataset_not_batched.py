"""The dataset was never batched, so the model gets single images without the batch axis."""

# finds: missing-batch-dimension

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(71)
rng = np.random.default_rng(71)
y = rng.integers(0, 10, 1200)
X = rng.normal(0, 0.2, (1200, 20, 20, 1))
for i, k in enumerate(y):
    X[i, 2 * k:2 * k + 2, :, 0] += 0.7
X = X.astype("float32")

train = tf.data.Dataset.from_tensor_slices((X[:1000], y[:1000])).shuffle(1000)
val = tf.data.Dataset.from_tensor_slices((X[1000:], y[1000:])).batch(50)
train = train.prefetch(tf.data.AUTOTUNE)  # WRONG
train = train.batch(20).prefetch(tf.data.AUTOTUNE)  # RIGHT

model = keras.Sequential([
    keras.Input((20, 20, 1)),
    layers.Conv2D(8, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(10, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
