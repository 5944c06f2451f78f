# Self-training: confident predictions on unlabelled data are added as pseudo labels round after round, the model is trained on with the grown set.
import os

import numpy as np
from sklearn.datasets import make_moons
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(3)

X, y = make_moons(n_samples=900, noise=0.25)
X = np.hstack([X, np.random.normal(size=(900, 3))]).astype("float32")
X_lab, y_lab = X[:80], y[:80]
X_unlab = X[80:700]
X_test, y_test = X[700:], y[700:]

model = keras.Sequential([
    keras.layers.Input((5,)),
    keras.layers.Dense(32, activation="relu", kernel_regularizer=keras.regularizers.l2(1e-4)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(2, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])

losses, accs, sizes = [], [], []
h = model.fit(X_lab, y_lab, epochs=12, batch_size=16, verbose=0)
losses += h.history["loss"]
accs.append(model.evaluate(X_test, y_test, verbose=0)[1])
pool = X_unlab.copy()
X_cur, y_cur = X_lab, y_lab
threshold = 0.95

for rnd in range(5):
    probs = model.predict(pool, verbose=0)
    sure = probs.max(axis=1) >= threshold
    if sure.sum() == 0:
        threshold -= 0.05
        continue
    X_cur = np.concatenate([X_cur, pool[sure]])
    y_cur = np.concatenate([y_cur, probs[sure].argmax(axis=1)])
    pool = pool[~sure]
    perm = np.random.permutation(len(X_cur))
    weight = np.ones(len(X_cur))
    weight[80:] = 0.5
    h = model.fit(X_cur[perm], y_cur[perm], sample_weight=weight[perm], epochs=3, batch_size=32, verbose=0)
    losses += h.history["loss"]
    accs.append(model.evaluate(X_test, y_test, verbose=0)[1])
    sizes.append(len(X_cur))
    print(f"round {rnd}: {sure.sum()} new pseudo labels, {len(pool)} left, test acc {accs[-1]:.3f}")
    if len(pool) < 20:
        break
    threshold = max(0.8, threshold - 0.03)

res = {"losses": np.array(losses), "accs": np.array(accs), "sizes": np.array(sizes), "threshold": np.array(threshold),
       "y_cur": y_cur, "pool": pool, "pred": model.predict(X_test[:30], verbose=0)}
for i, v in enumerate(model.variables):
    res[f"v{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    res[f"o{i}"] = np.asarray(v)
np.savez("result.npz", **res)
