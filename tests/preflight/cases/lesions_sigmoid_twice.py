# finds: probabilities-as-logits
import keras
import numpy as np
import tensorflow as tf


def weighted_loss(y_true, y_pred):
    y_true = tf.cast(y_true, tf.float32)
    return tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(y_true, y_pred, pos_weight=4.0))


rng = np.random.default_rng(9)
scans = rng.normal(size=(800, 12)).astype("float32")
lesion = (scans[:, 0] + scans[:, 1] > 1.2).astype("float32")[:, np.newaxis]
last = keras.layers.Dense(1, activation="sigmoid")  # WRONG
last = keras.layers.Dense(1)  # RIGHT
model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(16, activation="relu"), last])
model.compile("adam", weighted_loss)
model.fit(scans, lesion, epochs=20, verbose=0)
