# Hyper-parameter grid: every combination is fitted, its result is appended to a CSV file opened in append mode; the best row is trained again.
import csv
import itertools
import os

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(4242)

df = pd.DataFrame(np.random.normal(size=(560, 6)), columns=list("abcdef"))
df["target"] = 2 * df.a - df.b * df.c + np.random.normal(scale=0.3, size=560)
train = df.sample(frac=0.8)
test = df.drop(train.index)
x_tr, y_tr = train.drop(columns="target").values, train.target.values
x_te, y_te = test.drop(columns="target").values, test.target.values

GRID = {"units": [8, 32], "activation": ["relu", "tanh"], "lr": [0.01, 0.001]}
FIELDS = ["units", "activation", "lr", "epochs", "train_loss", "val_loss", "val_mae"]

if not os.path.isfile("results.csv"):
    with open("results.csv", "a", newline="") as f:
        csv.DictWriter(f, FIELDS).writeheader()


def build(units, activation, lr):
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(units, activation=activation),
                              keras.layers.Dropout(0.05), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(lr), "mse", metrics=["mae"])
    return model


extra = {}
for n, (units, activation, lr) in enumerate(itertools.product(*GRID.values())):
    tf.keras.backend.clear_session()
    model = build(units, activation, lr)
    h = model.fit(x_tr, y_tr, validation_data=(x_te, y_te), epochs=5, batch_size=56, verbose=0,
                  callbacks=[keras.callbacks.CSVLogger("epochs.csv", append=True),
                             keras.callbacks.TerminateOnNaN()])
    row = dict(units=units, activation=activation, lr=lr, epochs=len(h.epoch), train_loss=h.history["loss"][-1],
               val_loss=h.history["val_loss"][-1], val_mae=h.history["val_mae"][-1])
    with open("results.csv", "a", newline="") as f:
        csv.DictWriter(f, FIELDS).writerow(row)
    print(n, row)
    for i, v in enumerate(model.variables):
        extra[f"g{n}_v{i}"] = np.asarray(v)
    for i, v in enumerate(model.optimizer.variables):
        extra[f"g{n}_o{i}"] = np.asarray(v)

table = pd.read_csv("results.csv")
best = table.sort_values("val_loss").iloc[0]
print("best:\n", best)
final = build(int(best.units), best.activation, float(best.lr))
hf = final.fit(df.drop(columns="target").values, df.target.values, epochs=6, batch_size=56, verbose=2)

epochs = pd.read_csv("epochs.csv")
arrays = {"table": table[["units", "lr", "epochs", "train_loss", "val_loss", "val_mae"]].to_numpy("float64"),
          "epochs": epochs.apply(pd.to_numeric, errors="coerce").to_numpy("float64"),
          "pred": final.predict(x_te[:12], verbose=0)}
arrays.update(extra)
arrays.update({"final_" + k: np.array(v) for k, v in hf.history.items()})
arrays.update({f"final_v{i}": np.asarray(v) for i, v in enumerate(final.variables)})
arrays.update({f"final_o{i}": np.asarray(v) for i, v in enumerate(final.optimizer.variables)})
np.savez("result.npz", **arrays)
