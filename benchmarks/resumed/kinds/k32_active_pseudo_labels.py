# Active learning and pseudo labels in several fits: the label array is changed in place, pools are Python sets, queries by MC-dropout, the model and optimizer live on.
import os
import random

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(32)

n = 700
theta = np.random.uniform(0, 2 * np.pi, n)
truth = np.random.randint(0, 3, n)
r = 1 + truth + np.random.normal(0, 0.22, n)
X = np.stack([r * np.cos(theta), r * np.sin(theta), np.random.normal(size=n)], 1).astype("float32")

y = np.full(n, -1)  # -1: unknown
pool = set(range(600))
test = np.arange(600, n)
start = random.sample(sorted(pool), 30)
for i in start:
    y[i] = truth[i]
known = set(start)
pseudo = {}
queries = []

model = keras.Sequential(
    [
        keras.Input((3,)),
        layers.Dense(48, activation="relu"),
        layers.Dropout(0.3),
        layers.Dense(48, activation="relu"),
        layers.Dropout(0.3),
        layers.Dense(3, activation="softmax"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])


class PseudoLabeler(keras.callbacks.Callback):
    """Rewrites y while a fit runs; it is seen by the next fit."""

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
        self.flips = 0

    def on_epoch_end(self, epoch, logs=None):
        if epoch % 3 != 2:
            return
        cand = random.sample(sorted(pool - known), 80)
        p = self.model.predict(X[cand], verbose=0)
        for i, row in zip(cand, p):
            c = int(row.argmax())
            if row[c] > self.threshold:
                if i in pseudo and pseudo[i] != c:
                    self.flips += 1
                pseudo[i] = c
                y[i] = c
            elif i in pseudo:
                del pseudo[i]
                y[i] = -1
        self.threshold = max(0.6, self.threshold * 0.985)


labeler = PseudoLabeler(0.85)
histories, sizes, scores = [], [], []
for rnd in range(6):
    idx = np.flatnonzero(y >= 0)
    np.random.shuffle(idx)
    weights = np.where(np.isin(idx, list(known)), 1.0, 0.4)
    h = model.fit(X[idx], y[idx], sample_weight=weights, batch_size=16, epochs=8, callbacks=[labeler], verbose=0)
    histories.append(h.history["loss"])
    sizes.append(len(idx))
    scores.append(model.evaluate(X[test], truth[test], verbose=0)[1])

    # ask for the most uncertain ones
    cand = sorted(pool - known)
    mc = np.mean([np.asarray(model(X[cand], training=True)) for _ in range(5)], 0)
    entropy = -(mc * np.log(mc + 1e-9)).sum(1) + 1e-3 * np.random.rand(len(cand))
    for j in np.argsort(-entropy)[:10]:
        i = cand[j]
        y[i] = truth[i]
        known.add(i)
        pseudo.pop(i, None)
        queries.append(i)

res = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res["loss"] = np.array(histories)
res["sizes"] = np.array(sizes)
res["scores"] = np.array(scores)
res["y"] = y
res["queries"] = np.array(queries)
res["pseudo"] = np.array(sorted(pseudo.items())).reshape(-1, 2)
res["labeler"] = np.array([labeler.threshold, labeler.flips])
res["pred"] = model.predict(X[test[:10]], verbose=0)
np.savez("result.npz", **res)
