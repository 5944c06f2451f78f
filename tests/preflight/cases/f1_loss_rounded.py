"""The F1 loss rounds the predictions to 0 or 1, which has no gradient, so nothing can be learned; use the probabilities themselves."""

# finds: no-gradient

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(45)
rng = np.random.default_rng(45)
x = rng.normal(size=(1500, 10)).astype("float32")
y = (x @ rng.normal(size=10) + 0.5 * rng.normal(size=1500) > 1.0).astype("float32")[:, None]

def f1_loss(y_true, y_pred):
    p = tf.round(y_pred)  # WRONG
    p = y_pred  # RIGHT
    tp = tf.reduce_sum(y_true * p)
    fp = tf.reduce_sum((1.0 - y_true) * p)
    fn = tf.reduce_sum(y_true * (1.0 - p))
    return 1.0 - 2.0 * tp / (2.0 * tp + fp + fn + 1e-6)


model = keras.Sequential([
    keras.Input((10,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.003), loss=f1_loss, metrics=[keras.metrics.F1Score(threshold=0.5)])
model.fit(x[:1200], y[:1200], batch_size=64, epochs=3, validation_data=(x[1200:], y[1200:]), verbose=2)
print("val", model.evaluate(x[1200:], y[1200:], verbose=0))
