"""The masks are still 0 and 255 as stored in the image files; binary crossentropy needs 0 and 1."""

# finds: binary-targets

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)

def make(n, size=32):
    yy, xx = np.mgrid[:size, :size]
    images, masks = [], []
    for _ in range(n):
        cy, cx, r = rng.integers(8, 24), rng.integers(8, 24), rng.integers(4, 9)
        disc = (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        image = rng.normal(90, 15, (size, size, 3)) + disc[..., None] * np.array([80, 60, 20])
        images.append(np.clip(image, 0, 255).astype("uint8"))
        masks.append((disc * 255).astype("uint8")[..., None])
    return np.array(images), np.array(masks)

def load(image, mask):
    image = tf.cast(image, tf.float32) / 255.0
    mask = tf.cast(mask, tf.float32)  # WRONG
    mask = tf.cast(mask > 127, tf.float32)  # RIGHT
    return image, mask

train = tf.data.Dataset.from_tensor_slices(make(300)).map(load).shuffle(300).batch(16)
val = tf.data.Dataset.from_tensor_slices(make(60)).map(load).batch(16)

inputs = keras.Input((32, 32, 3))
a = layers.Conv2D(16, 3, padding="same", activation="relu")(inputs)
b = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(a)
c = layers.UpSampling2D()(b)
d = layers.Conv2D(16, 3, padding="same", activation="relu")(layers.Concatenate()([a, c]))
outputs = layers.Conv2D(1, 1, activation="sigmoid")(d)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=[keras.metrics.BinaryIoU(target_class_ids=[1], name="iou")])
model.fit(train, validation_data=val, epochs=3, verbose=2)
