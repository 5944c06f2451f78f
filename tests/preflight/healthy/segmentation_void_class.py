"""Segmentation with three classes and unlabelled pixels marked 255, which the loss leaves out through ignore_class."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(75)
rng = np.random.default_rng(75)
n = 320
mask = np.zeros((n, 20, 20), "int32")
image = np.full((n, 20, 20, 3), 0.2)
for k in range(n):
    for c in (1, 2):
        r, s = rng.integers(0, 12, 2)
        mask[k, r:r + 8, s:s + 8] = c
image[mask == 1] = (0.7, 0.3, 0.3)
image[mask == 2] = (0.3, 0.3, 0.7)
image = (image + rng.normal(0, 0.15, image.shape)).astype("float32")
mask[:, [0, -1], :] = 255
mask[:, :, [0, -1]] = 255


def masked_accuracy(y_true, y_pred):
    known = tf.cast(y_true < 255, tf.float32)
    hit = tf.cast(tf.equal(tf.cast(y_true, tf.int64), tf.argmax(y_pred, axis=-1)), tf.float32)
    return tf.reduce_sum(hit * known) / tf.maximum(tf.reduce_sum(known), 1.0)


model = keras.Sequential([
    keras.Input((20, 20, 3)),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
    layers.Conv2D(3, 1, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.005),
              loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=255), metrics=[masked_accuracy])
model.fit(image[:260], mask[:260], epochs=3, batch_size=13, validation_data=(image[260:], mask[260:]), verbose=2)
print("val", model.evaluate(image[260:], mask[260:], verbose=0))
