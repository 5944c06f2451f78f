# Boosting: weak nets fitted one after the other, sample_weight changed between the fits by the SAMME rule, early end of the ensemble, then all members stacked under a trainable combination layer and fine-tuned.
import math
import os

import numpy as np
import keras
from keras import layers
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(26)

K = 3
X, y = make_classification(n_samples=720, n_features=10, n_informative=6, n_classes=K, n_clusters_per_class=2, flip_y=0.03)
X_tr, X_te, y_tr, y_te = train_test_split(X.astype("float32"), y, test_size=0.25, stratify=y)
print(X_tr.shape, X_te.shape)


def weak(name):
    m = keras.Sequential(
        [layers.Input((10,)), layers.Dense(5, activation="relu"), layers.Dropout(0.1), layers.Dense(K, activation="softmax")],
        name=name,
    )
    m.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    return m


w = np.ones(len(X_tr)) / len(X_tr)
members, alphas, errors, staged, losses = [], [], [], [], []
votes = np.zeros((len(X_te), K))
for t in range(7):
    m = weak(f"weak{t}")
    h = m.fit(X_tr, y_tr, sample_weight=w * len(w), epochs=4, batch_size=27, verbose=0)
    miss = m.predict(X_tr, verbose=0).argmax(1) != y_tr
    err = float(np.sum(w * miss))
    if err >= 1 - 1 / K:
        print("no better than chance, thrown away")
        continue
    alpha = math.log((1 - err) / max(err, 1e-9)) + math.log(K - 1)
    w = w * np.exp(alpha * miss)
    w /= w.sum()
    votes[np.arange(len(X_te)), m.predict(X_te, verbose=0).argmax(1)] += alpha
    members.append(m)
    alphas.append(alpha)
    errors.append(err)
    losses.append(h.history["loss"])
    staged.append(np.mean(votes.argmax(1) == y_te))
    print(f"{t}: err {err:.3f} alpha {alpha:.3f} ensemble {staged[-1]:.3f}")


class Combine(layers.Layer):
    def __init__(self, start, **kw):
        super().__init__(**kw)
        self.start = start

    def build(self, shapes):
        self.alpha = self.add_weight(shape=(len(self.start),), initializer=keras.initializers.Constant(np.array(self.start)), name="alpha")

    def call(self, probs):
        a = keras.ops.softmax(self.alpha)
        return sum(a[i] * p for i, p in enumerate(probs))


inp = keras.Input((10,))
stacked = keras.Model(inp, Combine(alphas)([m(inp) for m in members]))
stacked.compile(keras.optimizers.Adam(2e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
hs = stacked.fit(X_tr, y_tr, epochs=3, batch_size=27, validation_data=(X_te, y_te), verbose=0)

out = dict(w=w, alphas=np.array(alphas), errors=np.array(errors), staged=np.array(staged), losses=np.array(losses), votes=votes)
out.update({f"stack_{k}": np.array(v) for k, v in hs.history.items()})
out.update({f"stack_w{i}": np.asarray(v) for i, v in enumerate(stacked.variables)})
out.update({f"stack_opt{i}": np.asarray(v) for i, v in enumerate(stacked.optimizer.variables)})
for t, m in enumerate(members):
    for i, v in enumerate(m.optimizer.variables):
        out[f"member{t}_opt{i}"] = np.asarray(v)
out["pred"] = stacked.predict(X_te[:20], verbose=0)
np.savez("result.npz", **out)
