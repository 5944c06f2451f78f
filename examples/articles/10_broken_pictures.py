"""Trains on picture files, one of which is broken."""

from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from pictures import images, labels, network

FOLDER = Path("pictures")

if not FOLDER.exists():
    FOLDER.mkdir()
    for number, image in enumerate((images[:128] * 255).astype(np.uint8)):
        (FOLDER / f"{number:03d}.png").write_bytes(tf.io.encode_png(image).numpy())
    (FOLDER / "077.png").write_bytes(b"this is no picture")


def read(name, label):
    return tf.ensure_shape(tf.io.decode_png(tf.io.read_file(name), channels=1), (8, 8, 1)), label


names = sorted(str(path) for path in FOLDER.glob("*.png"))
data = tf.data.Dataset.from_tensor_slices((names, labels[: len(names)])).map(read)
data = data.map(lambda image, label: (tf.cast(image, tf.float32) / 255, label)).batch(32)
keras.utils.set_random_seed(1)
network().fit(data, epochs=2, verbose=0)
print("finished")
