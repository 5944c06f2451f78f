"""tf.py_function loses the shape of what it returns, so the model sees an image of unknown rank; call set_shape after it."""

# finds: unknown-rank

import os
import tempfile
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(70)
rng = np.random.default_rng(70)
folder = tempfile.mkdtemp()
y = rng.integers(0, 2, 300)
paths = []
for i, k in enumerate(y):
    volume = rng.normal(0, 0.4, (16, 16, 1)).astype("float32")
    volume[4:12, 2:8] += 1.0 if k else 0.0
    volume[4:12, 8:14] += 0.0 if k else 1.0
    paths.append(os.path.join(folder, f"{i}.npy"))
    np.save(paths[-1], volume)

def read(path):
    return np.load(path.numpy().decode())

def load(path, label):
    image = tf.py_function(read, [path], tf.float32)
    image = tf.identity(image)  # WRONG
    image.set_shape((16, 16, 1))  # RIGHT
    return image, label

def make(a, b):
    return tf.data.Dataset.from_tensor_slices((paths[a:b], y[a:b]))

train = make(0, 240).shuffle(240).map(load).batch(12).prefetch(2)
val = make(240, 300).map(load).batch(12)
model = keras.Sequential([
    layers.Conv2D(8, 3, strides=2, activation="relu"),
    layers.Flatten(),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
