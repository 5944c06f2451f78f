"""The class weights are computed with whole-number division and all come out as 0, so the loss is 0 and the model does not learn."""

# finds: sample-weights, zero-gradients

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(82)
rng = np.random.default_rng(82)
y = rng.choice(3, 1500, p=[0.6, 0.3, 0.1])
X = (rng.normal(size=(1500, 7)) + np.eye(3, 7)[y] * 2.5).astype("float32")
X_train, y_train, X_test, y_test = X[:1200], y[:1200], X[1200:], y[1200:]

counts = np.bincount(y_train)
total = counts.sum()
per_class = counts // total  # WRONG
per_class = total / (3 * counts)  # RIGHT
sample_weight = per_class[y_train].astype("float32")

model = keras.Sequential([
    keras.Input((7,)),
    layers.Dense(32, activation="relu"),
    layers.Dropout(0.1),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
model.fit(X_train, y_train, sample_weight=sample_weight, epochs=3, batch_size=24, verbose=2)
print("test:", model.evaluate(X_test, y_test, verbose=0))
