"""Healthy: endless tf.data (repeat) with steps_per_epoch and validation_steps, two classes sampled evenly from two datasets."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(115)
rng = np.random.default_rng(115)
y = (rng.random(2000) < 0.1).astype("int32")
X = (rng.normal(size=(2000, 6)) + y[:, None] * np.array([1.5, -1.0, 0.8, 0, 0, 0])).astype("float32")
Xt, yt, Xv, yv = X[:1600], y[:1600], X[1600:], y[1600:]


def stream(label):
    rows = yt == label
    ds = tf.data.Dataset.from_tensor_slices((Xt[rows], yt[rows]))
    return ds.shuffle(int(rows.sum())).repeat()


train = tf.data.Dataset.sample_from_datasets([stream(0), stream(1)], weights=[0.5, 0.5]).batch(32).prefetch(2)
val = tf.data.Dataset.from_tensor_slices((Xv, yv)).batch(50)
model = keras.Sequential([
    keras.Input((6,)),
    layers.Dense(24, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=[keras.metrics.AUC(name="auc"), keras.metrics.Recall(name="recall")])
model.fit(train, steps_per_epoch=50, epochs=3, validation_data=val, validation_steps=8, verbose=2)
