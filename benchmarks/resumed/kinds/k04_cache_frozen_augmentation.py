# Random augmentation placed before .cache(): the noise drawn in the first epoch stays for all later ones; shuffle with reshuffle_each_iteration=False after it.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(31337)

t = np.linspace(0, 1, 40)
N = 720
label = np.arange(N) % 5
freq = 2 + 1.5 * label
sig = np.sin(2 * np.pi * (freq[:, None] * t[None] + np.random.rand(N, 1))).astype("float32")


def augment(s, c):
    gain = tf.random.uniform([], 0.4, 1.6)
    shift = tf.random.uniform([], 0, 40, dtype=tf.int32)
    s = tf.roll(s, shift, axis=0) * gain
    s = s + tf.random.normal(tf.shape(s), stddev=0.9)
    return s[:, None], c


ds = tf.data.Dataset.from_tensor_slices((sig, label))
ds = ds.shuffle(N, reshuffle_each_iteration=False)  # "fixed" split
test_ds = ds.take(120).map(augment).batch(60).cache()
train_ds = (
    ds.skip(120)
    .map(augment)
    .cache()
    .shuffle(64, seed=3)
    .batch(30, drop_remainder=True)
    .shuffle(5, reshuffle_each_iteration=False)
)

model = keras.Sequential(
    [
        keras.Input((40, 1)),
        keras.layers.Conv1D(12, 5, activation="relu"),
        keras.layers.MaxPooling1D(2),
        keras.layers.Conv1D(16, 5, activation="relu"),
        keras.layers.GlobalMaxPooling1D(),
        keras.layers.Dense(5, activation="softmax"),
    ]
)
model.compile("nadam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train_ds, validation_data=test_ds, epochs=20, verbose=0)

result = {}
for i, w in enumerate(model.get_weights()):
    result[f"weight{i}"] = w
for i, v in enumerate(model.optimizer.variables):
    result[f"opt{i}"] = np.asarray(v)
for k, v in history.history.items():
    result[k] = np.array(v)
# the frozen test noise and the cached train set as seen after the training
result["test_batch"] = next(iter(test_ds))[0].numpy()
result["train_sum"] = np.sort(np.concatenate([b[0].numpy().reshape(len(b[0]), -1).sum(1) for b in train_ds]))
result["pred"] = model.predict(test_ds, verbose=0)
np.savez("result.npz", **result)
