"""One file is truncated."""

# finds: data-raise
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
import os
import tempfile

folder = tempfile.mkdtemp()
for number in range(40):
    image = rng.integers(0, 255, (24, 24, 3)).astype("uint8")
    data = tf.io.encode_jpeg(image).numpy()
    if number == 25:  # WRONG
        data = data[:60]  # WRONG
    with open(os.path.join(folder, f"{number:02}.jpg"), "wb") as file:
        file.write(data)


def load(name, label):
    return tf.cast(tf.ensure_shape(tf.io.decode_jpeg(tf.io.read_file(name)), (24, 24, 3)), tf.float32) / 255.0, label


names = sorted(os.path.join(folder, name) for name in os.listdir(folder))
dataset = tf.data.Dataset.from_tensor_slices((names, np.arange(40) % 2)).map(load).batch(8)
model = keras.Sequential([keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(dataset, epochs=2)
