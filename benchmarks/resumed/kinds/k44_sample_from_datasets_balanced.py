# Long-tailed classes balanced by tf.data: one shuffled, repeated dataset per class, drawn from by sample_from_datasets, jitter by tf.random in map, steps_per_epoch, a repeating validation set with validation_steps.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(944)

counts = [700, 150, 40]
centers = tf.random.normal((3, 10), stddev=0.9)
xs = [tf.random.normal((c, 10)) + centers[k] for k, c in enumerate(counts)]

per_class = []
for k, x in enumerate(xs):
    y = tf.fill([x.shape[0]], k)
    per_class.append(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256).repeat())


def jitter(x, y):
    x = x + tf.random.normal(tf.shape(x), stddev=0.15)
    drop = tf.random.uniform(tf.shape(x)) < 0.05
    return tf.where(drop, 0.0, x), y


train = (
    tf.data.Dataset.sample_from_datasets(per_class, weights=[0.5, 0.3, 0.2])
    .map(jitter)
    .batch(32)
    .prefetch(2)
)
val_x = tf.concat([tf.random.normal((60, 10)) + centers[k] for k in range(3)], 0)
val_y = tf.repeat(tf.range(3), 60)
val = tf.data.Dataset.from_tensor_slices((val_x, val_y)).shuffle(180).repeat().batch(25)

model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.Dense(32, activation="selu", kernel_initializer="lecun_normal"),
        keras.layers.AlphaDropout(0.1),
        keras.layers.Dense(32, activation="selu", kernel_initializer="lecun_normal"),
        keras.layers.Dense(3),
    ]
)
model.compile(
    keras.optimizers.Adamax(0.01),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")],
)
h = model.fit(train, steps_per_epoch=27, epochs=15, validation_data=val, validation_steps=5, verbose=2)

out = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update((f"opt{i}", np.asarray(v)) for i, v in enumerate(model.optimizer.variables))
out.update((f"hist_{k}", np.array(v)) for k, v in h.history.items())
out["pred"] = model.predict(val_x, verbose=0)
np.savez("result.npz", **out)
