"""Precision and Recall compare 0/1 labels of the same shape as the output; with integer class labels and a softmax over three classes, the shapes do not match."""

# finds: step-fails

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(63)
rng = np.random.default_rng(63)
y = rng.integers(0, 3, 900)
X = rng.normal(0, 1, (900, 10)) + np.eye(3)[y] @ rng.normal(0, 1.2, (3, 10))
X = X.astype("float32")

Y = y  # WRONG
Y = keras.utils.to_categorical(y, 3)  # RIGHT
loss = keras.losses.SparseCategoricalCrossentropy()  # WRONG
loss = keras.losses.CategoricalCrossentropy()  # RIGHT
model = keras.Sequential([
    keras.Input((10,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(3, activation="softmax"),
])
model.compile(
    optimizer=keras.optimizers.Adam(5e-3),
    loss=loss,
    metrics=["accuracy", keras.metrics.Precision(), keras.metrics.Recall()],
)
model.fit(X[:700], Y[:700], validation_data=(X[700:], Y[700:]), epochs=3, batch_size=16, verbose=2)
