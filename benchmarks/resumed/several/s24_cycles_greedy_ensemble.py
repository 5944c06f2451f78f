# Snapshot ensemble: every cycle recompiles the same net with a fresh cosine schedule and keeps .keras snapshots at its end, then a greedy selection with replacement picks the ensemble, whose average is distilled into a last fit.
import glob
import os
import random

import numpy as np
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(24)

CYCLES, EPOCHS, BATCH = 5, 4, 32
theta = tf.random.uniform((700,), 0, 2 * np.pi).numpy()
arm = tf.random.uniform((700,), 0, 3, dtype=tf.int32).numpy()
noise = tf.random.normal((700, 2), stddev=0.15).numpy()
x = np.stack([theta * np.cos(theta + arm * 2.094), theta * np.sin(theta + arm * 2.094)], 1) / 5 + noise
x, y = x.astype("float32"), arm
x_tr, y_tr, x_va, y_va, x_te, y_te = x[:480], y[:480], x[480:600], y[480:600], x[600:], y[600:]

model = keras.Sequential(
    [
        keras.layers.Input((2,)),
        keras.layers.Dense(48, activation="relu"),
        keras.layers.Dense(48, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(3, activation="softmax"),
    ]
)
steps = EPOCHS * (len(x_tr) // BATCH)
os.makedirs("snapshots", exist_ok=True)
curves = {"loss": [], "accuracy": [], "val_loss": [], "val_accuracy": []}
peak = 0.03
for cycle in range(CYCLES):
    schedule = keras.optimizers.schedules.CosineDecay(peak, steps, alpha=0.01)
    model.compile(keras.optimizers.Adam(schedule), "sparse_categorical_crossentropy", metrics=["accuracy"])
    h = model.fit(x_tr, y_tr, epochs=EPOCHS, batch_size=BATCH, validation_data=(x_va, y_va), verbose=0)
    for k in curves:
        curves[k] += h.history[k]
    model.save(f"snapshots/cycle_{cycle}.keras")
    print(cycle, "val accuracy", h.history["val_accuracy"][-1])
    peak *= random.uniform(0.7, 1.0)

members = [keras.models.load_model(p) for p in sorted(glob.glob("snapshots/*.keras"))]
val_preds = np.array([m.predict(x_va, verbose=0) for m in members])


def nll(p):
    return -np.mean(np.log(p[np.arange(len(y_va)), y_va] + 1e-9))


chosen, total, path = [], np.zeros_like(val_preds[0]), []
for _ in range(8):
    losses = [nll((total + p) / (len(chosen) + 1)) for p in val_preds]
    pick = int(np.argmin(losses))
    chosen.append(pick)
    total += val_preds[pick]
    path.append(losses[pick])
print("chosen", chosen)

soft = np.mean([members[c].predict(x_tr, verbose=0) for c in chosen], axis=0)
student = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(3, activation="softmax")])
student.compile(keras.optimizers.Adam(0.02), "kl_divergence", metrics=["categorical_accuracy"])
hs = student.fit(x_tr, soft, epochs=6, batch_size=BATCH, verbose=0)

out = {f"curve_{k}": np.array(v) for k, v in curves.items()}
out.update({f"student_{k}": np.array(v) for k, v in hs.history.items()})
out.update(chosen=np.array(chosen), path=np.array(path), val_preds=val_preds, peak=np.array(peak))
for n, m in [("m", model), ("s", student)] + [(f"snap{i}_", m) for i, m in enumerate(members)]:
    out.update({f"{n}w{i}": np.asarray(v) for i, v in enumerate(m.variables)})
    out.update({f"{n}o{i}": np.asarray(v) for i, v in enumerate(m.optimizer.variables)})
out["test"] = np.mean([members[c].predict(x_te, verbose=0) for c in chosen], axis=0)
np.savez("result.npz", **out)
