"""A logarithm of 0 in the loss."""

# finds: loss-not-finite, gradient-not-finite
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")


def own(y_true, y_pred):
    y_true = tf.reshape(y_true, (-1, 1))
    return -tf.reduce_mean(y_true * tf.math.log(y_pred) + (1 - y_true) * tf.math.log(1 - y_pred))  # WRONG
    return keras.losses.binary_crossentropy(y_true, y_pred)  # RIGHT


model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="hard_sigmoid")]
)
x *= 5
model.compile("adam", own)
model.fit(x, y, epochs=5, validation_split=0.2)
