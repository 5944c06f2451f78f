# A pipeline with three sorts of randomness: a tf.random.Generator in map, stateless ops seeded by Dataset.counter, and a Dataset.scan that carries a state; mixup of two shuffles.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(8)

rng = np.random.default_rng(0)
centers = rng.normal(0, 2.0, (6, 10))
lab = rng.integers(0, 6, 900)
feat = (centers[lab] + rng.normal(0, 1.8, (900, 10))).astype("float32")
onehot = np.eye(6, dtype="float32")[lab]

g = tf.random.Generator.from_seed(int(np.random.randint(1, 2**30)), alg="philox")

base = tf.data.Dataset.from_tensor_slices((feat, onehot))
pairs = tf.data.Dataset.zip((base.shuffle(900), base.shuffle(300))).repeat().batch(30)


def mixup(count, pair):
    (xa, ya), (xb, yb) = pair
    seed = tf.stack([tf.cast(count, tf.int32), 17])
    u = tf.random.stateless_uniform((30, 1), seed)
    lam = tf.maximum(u, 1 - u)
    x = lam * xa + (1 - lam) * xb + 0.3 * g.normal(tf.shape(xa))
    keep = tf.cast(g.uniform(tf.shape(x)) > 0.1, tf.float32)
    return x * keep, lam * ya + (1 - lam) * yb


def drift(state, batch):
    # slowly moving offset, a random walk that is carried through the whole training
    x, y = batch
    off, n = state
    off = 0.97 * off + 0.05 * tf.random.stateless_normal((10,), tf.stack([n, 3]))
    x = x + off
    return (off, n + 1), (x, y)


train = (
    tf.data.Dataset.zip((tf.data.Dataset.counter(), pairs))
    .map(mixup)
    .scan((tf.zeros((10,)), tf.constant(0)), drift)
)

inputs = keras.Input((10,))
x = keras.layers.Dense(32, activation="swish")(inputs)
x = keras.layers.LayerNormalization()(x)
x = keras.layers.Dense(32, activation="swish")(x)
outputs = keras.layers.Dense(6, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(
    keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.1, 480, warmup_target=0.2, warmup_steps=30), momentum=0.9, nesterov=True),
    keras.losses.CategoricalCrossentropy(label_smoothing=0.05),
    metrics=["accuracy"],
)
history = model.fit(train, epochs=12, steps_per_epoch=44, validation_data=(feat[:200], onehot[:200]), verbose=0)

out = {"w_%d" % i: np.asarray(v) for i, v in enumerate(model.variables)}
out.update({"opt_%d" % i: np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({"hist_" + k: np.array(v) for k, v in history.history.items()})
out["pred"] = model.predict(feat[:12], verbose=0)
np.savez("result.npz", **out)
