# Plain MLP classifier fitted on NumPy arrays: default shuffling, validation_split, class_weight, Adam, L2 and a little Gaussian noise.
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(1234)

n, d, k = 1500, 20, 4
X = np.random.randn(n, d).astype("float32")
W = np.random.randn(d, k)
y = (X @ W + 1.5 * np.random.randn(n, k) + np.array([1.5, 0.5, 0.0, -1.5])).argmax(axis=1)

perm = np.random.permutation(n)
X, y = X[perm], y[perm]
X_test, y_test = X[:200], y[:200]
X, y = X[200:], y[200:]

counts = np.bincount(y, minlength=k)
class_weight = {i: float(len(y)) / (k * c) for i, c in enumerate(counts)}

model = keras.Sequential(
    [
        keras.Input((d,)),
        layers.GaussianNoise(0.1),
        layers.Dense(48, activation="relu", kernel_regularizer=keras.regularizers.l2(1e-4)),
        layers.Dense(24, activation="relu"),
        layers.Dense(k, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    X, y, batch_size=32, epochs=12, validation_split=0.2, class_weight=class_weight, verbose=0
)

test = model.evaluate(X_test, y_test, verbose=0)
out = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({f"hist_{key}": np.array(val) for key, val in history.history.items()})
out["test"] = np.array(test)
out["pred"] = model.predict(X_test[:20], verbose=0)
np.savez("result.npz", **out)
