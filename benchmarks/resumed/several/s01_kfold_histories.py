# K-fold cross-validation of a small regression net: histories, scores and out-of-fold predictions are collected in lists.
import os

import numpy as np
import tensorflow as tf
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from tensorflow import keras
from tensorflow.keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(7)

# --- data -----------------------------------------------------------------
N, D = 600, 13
X = np.random.randn(N, D).astype("float32")
y = (X[:, :4].sum(axis=1) + np.sin(3 * X[:, 4]) + 0.3 * np.random.randn(N)).astype("float32")


def build_model():
    model = keras.Sequential(
        [
            keras.Input(shape=(D,)),
            layers.Dense(32, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(16, activation="relu"),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="mse", metrics=["mae"])
    return model


kf = KFold(n_splits=5, shuffle=True)
histories, scores, models = [], [], []
oof = np.zeros(N, dtype="float32")

for fold, (tr, va) in enumerate(kf.split(X)):
    print(f"----- fold {fold} -----")
    mean, std = X[tr].mean(axis=0), X[tr].std(axis=0)
    x_tr, x_va = (X[tr] - mean) / std, (X[va] - mean) / std

    model = build_model()
    history = model.fit(
        x_tr, y[tr],
        validation_data=(x_va, y[va]),
        epochs=6,
        batch_size=32,
        verbose=0,
    )
    histories.append(history)
    oof[va] = model.predict(x_va, verbose=0)[:, 0]
    scores.append(model.evaluate(x_va, y[va], verbose=0))
    models.append(model)
    print("mse %.4f  mae %.4f" % tuple(scores[-1]))

print("CV mse: %.4f +- %.4f" % (np.mean([s[0] for s in scores]), np.std([s[0] for s in scores])))
print("OOF r2:", r2_score(y, oof))

mean_val = np.mean([h.history["val_loss"] for h in histories], axis=0)
best_epoch = int(np.argmin(mean_val)) + 1
print("best epoch over folds:", best_epoch)

# --- save everything --------------------------------------------------------
arrays = {"oof": oof, "scores": np.array(scores), "mean_val": mean_val, "best_epoch": np.array(best_epoch)}
for f, (h, m) in enumerate(zip(histories, models)):
    for k, v in h.history.items():
        arrays[f"hist{f}_{k}"] = np.array(v)
    arrays[f"epochs{f}"] = np.array(h.epoch)
    for i, v in enumerate(m.variables):
        arrays[f"fold{f}_w{i}"] = np.asarray(v)
    for i, v in enumerate(m.optimizer.variables):
        arrays[f"fold{f}_opt{i}"] = np.asarray(v)
np.savez("result.npz", **arrays)
