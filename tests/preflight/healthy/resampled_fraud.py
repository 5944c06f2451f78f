"""Rare frauds are drawn as often as the rest for training; the validation data keep their true rate."""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
features = rng.normal(0, 1, (6000, 8)).astype("float32")
labels = (np.arange(6000) % 500 == 0).astype("int64")
features[labels == 1] += 2
train_x, train_y, test_x, test_y = features[:4000], labels[:4000], features[4000:], labels[4000:]


def endless(of_class):
    chosen = train_y == of_class
    return tf.data.Dataset.from_tensor_slices((train_x[chosen], train_y[chosen])).shuffle(4000).repeat()


train = tf.data.Dataset.sample_from_datasets([endless(1), endless(0)], weights=[0.5, 0.5]).batch(128).prefetch(2)
test = tf.data.Dataset.from_tensor_slices((test_x, test_y)).batch(128)
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=[keras.metrics.AUC(name="prc", curve="PR")])
model.fit(train, epochs=2, steps_per_epoch=20, validation_data=test)
