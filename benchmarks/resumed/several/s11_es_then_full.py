# Early stopping on a split, then the model is built anew and trained on all data for es.stopped_epoch epochs.
import os

import keras
import numpy as np
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(1)

t = np.arange(0, 1100) * 0.1
series = np.sin(t) + 0.5 * np.sin(2.7 * t) + np.random.normal(scale=0.15, size=t.shape)
W = 20
X = np.stack([series[i:i + W] for i in range(len(series) - W)])[..., None].astype("float32")
y = series[W:].astype("float32")
n_val = 200
X_tr, y_tr, X_va, y_va = X[:-n_val], y[:-n_val], X[-n_val:], y[-n_val:]


class Forecaster(keras.Model):
    def __init__(self, units=16, **kwargs):
        super().__init__(**kwargs)
        self.conv = layers.Conv1D(8, 4, activation="relu")
        self.rnn = layers.LSTM(units)
        self.drop = layers.Dropout(0.1)
        self.out = layers.Dense(1)

    def call(self, x, training=False):
        h = self.rnn(self.conv(x))
        return ops.squeeze(self.out(self.drop(h, training=training)), -1)


def build():
    m = Forecaster()
    m.compile(optimizer=keras.optimizers.Adam(1e-2, clipnorm=1.0), loss="huber", metrics=["mae"])
    return m


model = build()
es = keras.callbacks.EarlyStopping(patience=2, min_delta=1e-4, verbose=1)
hist = model.fit(X_tr, y_tr, validation_data=(X_va, y_va), epochs=14, batch_size=44, callbacks=[es], verbose=2)
n_epochs = es.stopped_epoch if es.stopped_epoch else 14
print("training on everything for", n_epochs, "epochs")

final = build()
full = final.fit(X, y, epochs=n_epochs, batch_size=44, verbose=2)

a = {"n_epochs": np.array(n_epochs), "es": np.array([es.best, es.wait, es.best_epoch, es.stopped_epoch])}
for tag, m, h in (("split", model, hist), ("full", final, full)):
    for k, v in h.history.items():
        a[f"{tag}_{k}"] = np.array(v)
    for i, v in enumerate(m.variables):
        a[f"{tag}_w{i}"] = np.asarray(v)
    for i, v in enumerate(m.optimizer.variables):
        a[f"{tag}_o{i}"] = np.asarray(v)
    a[f"{tag}_pred"] = m.predict(X[-20:], verbose=0)
np.savez("result.npz", **a)
