"""A loss that uses argmax."""

# finds: no-gradient, step-fails
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])


def wrong(y_true, y_pred):
    hits = tf.equal(tf.argmax(y_pred, -1), tf.cast(tf.squeeze(y_true), tf.int64))  # WRONG
    return 1.0 - tf.cast(hits, tf.float32)  # WRONG
    return keras.losses.sparse_categorical_crossentropy(y_true, y_pred)  # RIGHT


model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", wrong)
model.fit(x, y, epochs=5, validation_split=0.2)
