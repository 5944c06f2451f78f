# Training that talks to itself through files: CSVLogger and an open JSON-lines log are read back to set the learning rate, ModelCheckpoint(save_best_only) is reloaded in mid-training and at the end.
import csv
import glob
import json
import os

import numpy as np
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(17)

X = np.random.rand(800, 8).astype("float32")
y = (10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]).astype("float32")
y += np.random.randn(800).astype("float32")
y = (y - y.mean()) / y.std()

model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(48, activation="relu"),
        keras.layers.Dropout(0.15),
        keras.layers.Dense(48, activation="relu"),
        keras.layers.Dense(1),
    ]
)
model.compile(keras.optimizers.Adam(0.03), loss="mse", metrics=["mae"])


class JsonLog(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.fh = open("batches.jsonl", "w", buffering=1)

    def on_train_batch_end(self, batch, logs=None):
        self.fh.write(json.dumps({"batch": int(batch), "loss": round(float(logs["loss"]), 6)}) + "\n")

    def on_train_end(self, logs=None):
        self.fh.close()


class LRFromLogs(keras.callbacks.Callback):
    """Looks at the last lines of training.csv and batches.jsonl."""

    def on_epoch_end(self, epoch, logs=None):
        with open("training.csv") as f:
            rows = list(csv.DictReader(f))
        with open("batches.jsonl") as f:
            lines = [json.loads(l) for l in f]
        opt = self.model.optimizer
        val = [float(r["val_loss"]) for r in rows]
        if len(val) >= 3 and val[-1] > np.mean(val[-3:-1]):
            opt.learning_rate = float(opt.learning_rate) * 0.6
        # number of lines so far: a slow global decay
        opt.learning_rate = float(opt.learning_rate) * (1.0 - 1e-4 * len(lines) / (epoch + 1))


class BackToBest(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch in (6, 11) and os.path.exists("best.weights.h5"):
            self.model.load_weights("best.weights.h5")


cbs = [
    keras.callbacks.CSVLogger("training.csv"),
    JsonLog(),
    keras.callbacks.ModelCheckpoint("best.weights.h5", monitor="val_loss", save_best_only=True, save_weights_only=True),
    keras.callbacks.ModelCheckpoint("ckpt/e{epoch:02d}.keras", save_freq=50),
    LRFromLogs(),
    BackToBest(),
]
os.makedirs("ckpt", exist_ok=True)
h = model.fit(X[:640], y[:640], validation_data=(X[640:], y[640:]), epochs=16, batch_size=32, callbacks=cbs, verbose=0)

res = {f"final{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"hist_{k}": np.array(v) for k, v in h.history.items()})
with open("training.csv") as f:
    rows = list(csv.reader(f))
res["csv"] = np.array([[float(c) for c in r] for r in rows[1:]])
with open("batches.jsonl") as f:
    res["jsonl"] = np.array([[d["batch"], d["loss"]] for d in map(json.loads, f)])
files = sorted(glob.glob("ckpt/*.keras"))
res["ckpt_epochs"] = np.array([int(os.path.basename(p)[1:3]) for p in files])
last = keras.models.load_model(files[-1])
res.update({f"ckpt{i}": w for i, w in enumerate(last.get_weights())})
model.load_weights("best.weights.h5")
res.update({f"best{i}": w for i, w in enumerate(model.get_weights())})
res["pred"] = model.predict(X[640:660], verbose=0)
np.savez("result.npz", **res)
