"""Noise is added to the validation images too, since removing it is the task."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
images = rng.random((200, 16, 16, 1)).astype("float32")


def noisy(image):
    return tf.clip_by_value(image + tf.random.normal(tf.shape(image), stddev=0.2), 0.0, 1.0), image


train = tf.data.Dataset.from_tensor_slices(images[:160]).shuffle(160).map(noisy).batch(16)
held = tf.data.Dataset.from_tensor_slices(images[160:]).map(noisy).batch(16)
model = keras.Sequential(
    [
        keras.Input((16, 16, 1)),
        keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid"),
    ]
)
model.compile("adam", "mse")
model.fit(train, validation_data=held, epochs=3)
