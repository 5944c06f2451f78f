"""np.random inside Dataset.map runs only once when the function is traced, so every image gets the same 'random' shift."""

# finds: frozen-random

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(34)
rng = np.random.default_rng(34)
y = rng.integers(0, 3, 900).astype("int32")
t = np.linspace(0, 1, 64)
amp = rng.uniform(0.8, 1.2, (900, 1))
X = amp * np.sin(2 * np.pi * (y[:, None] * 2 + 2) * t) + rng.normal(0, 0.2, (900, 64))
X = X[..., None].astype("float32")

def shift(signal, label):
    offset = np.random.randint(-16, 17)  # WRONG
    offset = tf.random.uniform((), -16, 17, dtype=tf.int32)  # RIGHT
    return tf.roll(signal, offset, axis=0), label

train = tf.data.Dataset.from_tensor_slices((X[:720], y[:720]))
train = train.shuffle(720).map(shift).batch(16).prefetch(tf.data.AUTOTUNE)
val = tf.data.Dataset.from_tensor_slices((X[720:], y[720:])).batch(16)

model = keras.Sequential([
    keras.Input((64, 1)),
    layers.Conv1D(16, 7, activation="relu"),
    layers.MaxPooling1D(2),
    layers.Conv1D(32, 5, activation="relu"),
    layers.GlobalMaxPooling1D(),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
