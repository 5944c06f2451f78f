# Multi-input multi-output: ragged text bucketed by length, sparse tags, TextVectorization; dynamic task weighting by a callback through variables in loss closures; per-output metrics.
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(39)

words = ["w%02d" % i for i in range(60)]
good, bad = set(random.sample(words, 12)), set()
bad = set(random.sample(sorted(set(words) - good), 12))
N, TAGS = 640, 40
texts, tags, stars, spam = [], [], [], []
for _ in range(N):
    ws = random.choices(words, weights=[1 / (i + 3) for i in range(60)], k=random.randint(3, 25))
    tg = sorted(random.sample(range(TAGS), random.randint(1, 6)))
    texts.append(" ".join(ws))
    tags.append(tg)
    stars.append(sum(w in good for w in ws) - sum(w in bad for w in ws) + random.gauss(0, 0.3))
    spam.append(float((tg[0] < 6) != (len(ws) > 18)))

vec = layers.TextVectorization(max_tokens=64, output_mode="int", ragged=True)
vec.adapt(tf.constant(texts))
ids = vec(tf.constant(texts))
sparse = tf.SparseTensor(
    [[i, t] for i, tg in enumerate(tags) for t in tg], [1.0] * sum(map(len, tags)), [N, TAGS]
)

ds = tf.data.Dataset.from_tensor_slices((ids, sparse, np.array(stars, "float32"), np.array(spam, "float32")))


def to_xy(i, s, a, b):
    s = tf.sparse.reshape(s, (-1, TAGS))
    return {"ids": i, "tags": s}, {"stars": a[:, None], "spam": b[:, None]}


def as_dense(i, s, a, b):
    return i, tf.sparse.to_dense(s), a, b


train = (
    ds.take(560)
    .shuffle(560)
    .map(as_dense)
    .map(lambda i, s, a, b: (tf.where(tf.random.uniform(tf.shape(i)) < 0.1, tf.ones_like(i), i), s, a, b))
    .bucket_by_sequence_length(lambda i, s, a, b: tf.shape(i)[0], [8, 14, 20], [24, 20, 16, 16])
    .map(lambda i, s, a, b: (i, tf.sparse.from_dense(s), a, b))
    .map(to_xy)
)
test = ds.skip(560).ragged_batch(20).map(lambda i, s, a, b: (i.to_tensor() if hasattr(i, "to_tensor") else i, s, a, b)).map(
    lambda i, s, a, b: to_xy(i, s, a, b)
)

i_in = keras.Input((None,), dtype="int64", name="ids")
t_in = keras.Input((TAGS,), sparse=True, name="tags")
e = layers.Embedding(64, 12, mask_zero=True)(i_in)
e = layers.Bidirectional(layers.GRU(10))(e)
t = layers.Dense(12, activation="relu")(t_in)
h = layers.Concatenate()([e, t])
h = layers.Dense(24, activation="relu")(h)
model = keras.Model([i_in, t_in], {"stars": layers.Dense(1, name="stars")(h), "spam": layers.Dense(1, activation="sigmoid", name="spam")(h)})

task_w = tf.Variable([1.0, 1.0], trainable=False)


def weighted(fn, k):
    def loss(y_true, y_pred):
        return task_w[k] * fn(y_true, y_pred)

    return loss


class DynamicWeightAverage(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.past = {"stars_mae": [], "spam_accuracy": []}
        self.weights_log = []

    def on_epoch_end(self, epoch, logs=None):
        for k in self.past:
            v = logs[k] if k == "stars_mae" else 1.001 - logs[k]
            self.past[k].append(v)
        if epoch >= 1:
            r = np.array([v[-1] / v[-2] for v in self.past.values()])
            w = 2 * np.exp(r / 0.5) / np.exp(r / 0.5).sum()
            task_w.assign(0.5 * task_w + 0.5 * w.astype("float32"))
        self.weights_log.append(task_w.numpy().copy())


model.compile(
    keras.optimizers.Adam(5e-3),
    loss={"stars": weighted(keras.losses.mean_squared_error, 0), "spam": weighted(keras.losses.binary_crossentropy, 1)},
    metrics={"stars": "mae", "spam": "accuracy"},
)
dwa = DynamicWeightAverage()
hist = model.fit(train, epochs=8, validation_data=test, callbacks=[dwa], verbose=0)

res = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"h_{k}": np.array(v) for k, v in hist.history.items()})
res["task_w"] = np.array(dwa.weights_log)
res["past"] = np.array(list(dwa.past.values()))
p = model.predict(test.map(lambda x, y: x), verbose=0)
res["pred_stars"], res["pred_spam"] = p["stars"], p["spam"]
np.savez("result.npz", **res)
