# A callback works out F1 and a confusion matrix by predict() and puts val_f1 into the logs, which ModelCheckpoint, EarlyStopping and ReduceLROnPlateau then monitor; it also tunes the decision threshold.
import os
import random

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(59)

samples = []
for _ in range(1200):
    v = [random.gauss(0, 1) for _ in range(8)]
    s = v[0] * v[1] + abs(v[2]) - v[3] + random.gauss(0, 0.4)
    samples.append((v, int(s > 2.2)))
random.shuffle(samples)
X = np.array([s[0] for s in samples], "float32")
Y = np.array([s[1] for s in samples])
print("share of positives", Y.mean())
Xtr, Ytr, Xva, Yva = X[:900], Y[:900], X[900:], Y[900:]


def f1_of(y, p):
    tp = np.sum((y == 1) & (p == 1))
    return 2 * tp / max(1, np.sum(y == 1) + np.sum(p == 1))


class F1Callback(keras.callbacks.Callback):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y
        self.f1s, self.matrices, self.thresholds = [], [], []

    def on_epoch_end(self, epoch, logs=None):
        p = self.model.predict(self.x, verbose=0)[:, 0]
        grid = np.linspace(0.1, 0.9, 17)
        scores = [f1_of(self.y, p > t) for t in grid]
        t = float(grid[int(np.argmax(scores))])
        smooth = t if not self.thresholds else 0.7 * self.thresholds[-1] + 0.3 * t
        self.thresholds.append(smooth)
        pred = (p > smooth).astype(int)
        cm = np.zeros((2, 2), int)
        np.add.at(cm, (self.y, pred), 1)
        self.matrices.append(cm)
        logs["val_f1"] = float(f1_of(self.y, pred))
        self.f1s.append(logs["val_f1"])
        print(f" - val_f1: {logs['val_f1']:.3f} at {smooth:.2f}")


model = keras.Sequential(
    [
        layers.Input((8,)),
        layers.Dense(48, activation="relu", kernel_initializer="he_uniform"),
        layers.LayerNormalization(),
        layers.Dropout(0.3),
        layers.Dense(24, activation="relu"),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    keras.optimizers.Adam(3e-3),
    loss=keras.losses.BinaryFocalCrossentropy(apply_class_balancing=True),
    metrics=[keras.metrics.Precision(name="prec"), keras.metrics.AUC(curve="PR", name="pr_auc")],
)
f1 = F1Callback(Xva, Yva)
stop = keras.callbacks.EarlyStopping("val_f1", mode="max", patience=5, restore_best_weights=True, verbose=1)
best = keras.callbacks.ModelCheckpoint("best.keras", monitor="val_f1", mode="max", save_best_only=True)
plateau = keras.callbacks.ReduceLROnPlateau("val_f1", mode="max", factor=0.5, patience=2, min_lr=1e-5)
hist = model.fit(
    Xtr, Ytr, validation_data=(Xva, Yva), epochs=14, batch_size=32, callbacks=[f1, best, plateau, stop], verbose=2
)

kept = keras.models.load_model("best.keras")
res = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"best{i}": np.asarray(v) for i, v in enumerate(kept.variables)})
res.update({f"bestopt{i}": np.asarray(v) for i, v in enumerate(kept.optimizer.variables)})
res.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
res.update(f1=np.array(f1.f1s), cm=np.array(f1.matrices), thr=np.array(f1.thresholds))
res["stop"] = np.array([stop.best, stop.wait, stop.stopped_epoch, stop.best_epoch])
res["pred"] = model.predict(Xva[:20], verbose=0)
np.savez("result.npz", **res)
