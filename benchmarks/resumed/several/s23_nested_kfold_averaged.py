# Nested cross-validation: inner folds choose a configuration, per outer fold two seeds of the winner are fitted and averaged in weights and in predictions; all scores in a dictionary of lists.
import os
from collections import defaultdict

import numpy as np
import keras
from keras import layers
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(23)

X = np.random.gamma(2.0, 1.0, size=(420, 10))
logit = np.log(X[:, 0] / X[:, 1]) + 0.5 * X[:, 2] - 0.4 * X[:, 3] * X[:, 4] + np.random.logistic(size=420) * 0.5
y = (logit > np.median(logit)).astype("float32")

grid = [
    {"units": 12, "dropout": 0.0, "lr": 0.02},
    {"units": 32, "dropout": 0.3, "lr": 0.01},
]


def build(units, dropout, lr):
    m = keras.Sequential(
        [
            layers.Input((10,)),
            layers.Dense(units, activation="relu"),
            layers.Dropout(dropout),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    m.compile(keras.optimizers.Adam(lr), "binary_crossentropy", metrics=["accuracy"])
    return m


outer = StratifiedKFold(n_splits=2, shuffle=True)
scores = defaultdict(list)
oof = np.zeros(len(X))
finals = []
for fold, (tr, te) in enumerate(outer.split(X, y)):
    scaler = StandardScaler().fit(X[tr])
    Xtr, Xte = scaler.transform(X[tr]).astype("float32"), scaler.transform(X[te]).astype("float32")
    inner_scores = []
    for params in grid:
        vals = []
        for a, b in KFold(n_splits=2, shuffle=True).split(Xtr):
            model = build(**params)
            h = model.fit(Xtr[a], y[tr][a], validation_data=(Xtr[b], y[tr][b]), epochs=5, batch_size=16, verbose=0)
            vals.append(min(h.history["val_loss"]))
            scores["inner_curves"].append(h.history["val_loss"])
        inner_scores.append(np.mean(vals))
    best = int(np.argmin(inner_scores))
    scores["inner"].append(inner_scores)
    scores["chosen"].append(best)
    print(f"fold {fold}: inner {np.round(inner_scores, 4)} -> {grid[best]}")

    members, preds = [], []
    start = build(**grid[best]).get_weights()
    for _ in range(2):
        model = build(**grid[best])
        model.set_weights(start)  # one start, two orders of the data
        h = model.fit(Xtr, y[tr], epochs=6, batch_size=16, verbose=0)
        scores["final_curves"].append(h.history["loss"])
        members.append(model)
        preds.append(model.predict(Xte, verbose=0)[:, 0])
    soup = build(**grid[best])
    soup.set_weights([np.mean(ws, axis=0) for ws in zip(*(m.get_weights() for m in members))])
    oof[te] = np.mean(preds, axis=0)
    scores["outer"].append(np.mean((oof[te] > 0.5) == y[te]))
    scores["soup"].append(np.mean((soup.predict(Xte, verbose=0)[:, 0] > 0.5) == y[te]))
    finals.append((members, soup))

print("outer accuracy", scores["outer"], "weight average", scores["soup"])
out = {f"score_{k}": np.array(v) for k, v in scores.items()}
out["oof"] = oof
for f, (members, soup) in enumerate(finals):
    for m, model in enumerate(members):
        for i, w in enumerate(model.get_weights()):
            out[f"f{f}m{m}w{i}"] = w
        for i, v in enumerate(model.optimizer.variables):
            out[f"f{f}m{m}o{i}"] = np.asarray(v)
    for i, w in enumerate(soup.get_weights()):
        out[f"f{f}soup{i}"] = w
np.savez("result.npz", **out)
