"""The callback list contains the class ReduceLROnPlateau instead of an instance; add parentheses."""

# finds: callback-is-class

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(26)
rng = np.random.default_rng(26)
steps = np.linspace(0, 1, 32)
slope = rng.uniform(-2, 2, 700)
X = slope[:, None] * steps + rng.normal(0, 0.2, (700, 32))
X = X[..., None].astype("float32")
y = (slope / 2).astype("float32")

model = keras.Sequential([
    keras.Input((32, 1)),
    layers.Conv1D(16, 5, activation="relu"),
    layers.MaxPooling1D(2),
    layers.Conv1D(16, 3, activation="relu"),
    layers.Flatten(),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="mse", metrics=["mae"])
reduce_lr = keras.callbacks.ReduceLROnPlateau  # WRONG
reduce_lr = keras.callbacks.ReduceLROnPlateau(patience=1)  # RIGHT
model.fit(X[:600], y[:600], validation_split=0.15, epochs=3, batch_size=16, callbacks=[reduce_lr], verbose=2)
print(model.evaluate(X[600:], y[600:], verbose=0))
