# Sets its output up so that a second start would trip: os.makedirs("out") without exist_ok and open(..., "x"), then two fits that write to it.
import json
import os
import shutil

import keras
import numpy as np

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(10)

OUT = "out"
os.makedirs(OUT)
os.mkdir(os.path.join(OUT, "checkpoints"))

config = {"units": 20, "lr": 0.005, "batch": 32, "epochs": [5, 5]}
with open(os.path.join(OUT, "config.json"), "x") as f:
    json.dump(config, f)

# data set goes to files first
rng = np.random.default_rng(0)
X = rng.normal(size=(480, 12)).astype("float32")
Y = np.stack([X[:, 0] * X[:, 1], X[:, 2] - X[:, 3] ** 2], axis=1) + 0.1 * rng.normal(size=(480, 2))
os.mkdir("data")
for part in range(4):
    with open(f"data/part{part}.npz", "xb") as f:
        np.savez(f, x=X[part * 120:(part + 1) * 120], y=Y[part * 120:(part + 1) * 120])
parts = [np.load(os.path.join("data", p)) for p in sorted(os.listdir("data"))]
X = np.concatenate([p["x"] for p in parts])
Y = np.concatenate([p["y"] for p in parts])

log = open(os.path.join(OUT, "log.txt"), "x")


def build(n_out):
    m = keras.Sequential([keras.Input((12,)), keras.layers.Dense(config["units"], activation="tanh"),
                          keras.layers.Dropout(0.1), keras.layers.Dense(n_out)])
    m.compile(keras.optimizers.Adam(config["lr"]), "mse")
    return m


results = {}
for stage, epochs in enumerate(config["epochs"]):
    model = build(1)
    path = os.path.join(OUT, "checkpoints", f"target{stage}")
    os.mkdir(path)
    h = model.fit(
        X, Y[:, stage], validation_split=0.25, epochs=epochs, batch_size=config["batch"], verbose=0,
        callbacks=[
            keras.callbacks.ModelCheckpoint(os.path.join(path, "e{epoch:02d}.weights.h5"), save_weights_only=True),
            keras.callbacks.CSVLogger(os.path.join(OUT, f"target{stage}.csv")),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda e, logs: log.write(f"{stage} {e} {logs['loss']:.8f}\n")),
        ],
    )
    log.flush()
    os.rename(os.path.join(path, f"e{epochs:02d}.weights.h5"), os.path.join(OUT, f"final{stage}.weights.h5"))
    results[f"n_files{stage}"] = np.array(len(os.listdir(path)))
    for k, v in h.history.items():
        results[f"t{stage}_{k}"] = np.array(v)
    for i, v in enumerate(model.variables):
        results[f"t{stage}_v{i}"] = np.asarray(v)
    for i, v in enumerate(model.optimizer.variables):
        results[f"t{stage}_o{i}"] = np.asarray(v)
    again = build(1)
    again.load_weights(os.path.join(OUT, f"final{stage}.weights.h5"))
    results[f"t{stage}_pred"] = again.predict(X[:10], verbose=0)
    results[f"t{stage}_csv"] = np.loadtxt(os.path.join(OUT, f"target{stage}.csv"), delimiter=",", skiprows=1)

log.close()
results["log"] = np.loadtxt(os.path.join(OUT, "log.txt"))
shutil.copyfile(os.path.join(OUT, "log.txt"), os.path.join(OUT, "log_final.txt"))
np.savez("result.npz", **results)
