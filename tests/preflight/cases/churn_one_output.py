"""Categorical crossentropy on a single sigmoid output is always zero; a yes/no label with one output needs binary crossentropy."""

# finds: categorical-loss-of-one-unit

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)
n = 1500
tenure = rng.uniform(0, 72, n)
bill = rng.normal(65, 20, n)
calls = rng.poisson(2, n)
X = np.stack([tenure, bill, calls], axis=1).astype("float32")
score = -0.06 * (tenure - 36) + 0.03 * (bill - 65) + 0.5 * (calls - 2)
y = (score + rng.normal(0, 0.4, n) > 0).astype("float32").reshape(-1, 1)

X_train, X_test = X[:1200], X[1200:]
y_train, y_test = y[:1200], y[1200:]
mean, std = X_train.mean(axis=0), X_train.std(axis=0)
X_train, X_test = (X_train - mean) / std, (X_test - mean) / std

model = keras.Sequential([
    keras.Input((3,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(16, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])  # WRONG
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])  # RIGHT
model.fit(X_train, y_train, validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("test", model.evaluate(X_test, y_test, verbose=0))
