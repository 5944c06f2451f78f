"""Gradients are accumulated over more batches than there are in the whole run, so the weights are never updated."""

# finds: accumulates-to-the-end

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(30)
rng = np.random.default_rng(30)
X = rng.normal(size=(1000, 8)).astype("float32")
y = (X[:, 0] > X[:, 1]).astype("int32")

model = keras.Sequential([
    keras.Input((8,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(2, activation="softmax"),
])
accumulate = 256  # WRONG
accumulate = 2  # RIGHT
model.compile(
    optimizer=keras.optimizers.Adam(1e-2, gradient_accumulation_steps=accumulate),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
model.fit(X[:800], y[:800], validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("test:", model.evaluate(X[800:], y[800:], verbose=0))
