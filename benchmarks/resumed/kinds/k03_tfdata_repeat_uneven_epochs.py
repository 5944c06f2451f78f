# tf.data shuffle().repeat() with a steps_per_epoch that does not divide the data, so the iterator lives on across epochs.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(99)

x = tf.random.uniform((1000, 6), -2.0, 2.0)
y = tf.sin(x[:, 0] * x[:, 1]) + 0.3 * x[:, 2] ** 2 - tf.abs(x[:, 3]) + tf.random.normal((1000,), stddev=0.1)

train = (
    tf.data.Dataset.from_tensor_slices((x[:800], y[:800]))
    .shuffle(150)
    .repeat()
    .batch(24)
    .prefetch(tf.data.AUTOTUNE)
)
val = tf.data.Dataset.from_tensor_slices((x[800:], y[800:])).batch(50).cache("val_cache")

model = tf.keras.Sequential()
model.add(tf.keras.layers.InputLayer(shape=(6,)))
model.add(tf.keras.layers.Dense(64, activation="tanh"))
model.add(tf.keras.layers.Dense(64, activation="tanh"))
model.add(tf.keras.layers.Dense(1))
lr = tf.keras.optimizers.schedules.PolynomialDecay(5e-3, 500, 1e-4, power=2.0)
model.compile(optimizer=tf.keras.optimizers.RMSprop(lr, momentum=0.9), loss="huber", metrics=["mae"])

hist = model.fit(train, epochs=25, steps_per_epoch=23, validation_data=val, validation_freq=[1, 4, 5, 11, 14, 19, 25], verbose=0)

arrays = {"v%02d" % i: v.numpy() for i, v in enumerate(model.weights)}
arrays.update({"o%02d" % i: v.numpy() for i, v in enumerate(model.optimizer.variables)})
for k in hist.history:
    arrays["h_" + k] = np.asarray(hist.history[k])
arrays["pred"] = model.predict(x[:10], verbose=0)
np.savez("result.npz", **arrays)
