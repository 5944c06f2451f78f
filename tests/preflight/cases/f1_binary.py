"""F1Score needs labels and predictions with two dimensions, but the binary labels are a flat vector."""

# finds: step-fails

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(64)
rng = np.random.default_rng(64)
n = 1600
amount = rng.lognormal(3, 1, n)
hour = rng.uniform(0, 24, n)
foreign = rng.integers(0, 2, n)
X = np.column_stack([np.log(amount), np.sin(hour / 24 * 6.283), np.cos(hour / 24 * 6.283), foreign]).astype("float32")
fraud = (np.log(amount) - 3 + 1.5 * foreign + rng.normal(0, 0.3, n) > 1.3).astype("float32")
y = fraud  # WRONG
y = fraud[:, None]  # RIGHT
weight = {0: n / (2 * (fraud == 0).sum()), 1: n / (2 * (fraud == 1).sum())}

norm = layers.Normalization()
norm.adapt(X[:1280])
inputs = keras.Input((4,))
h = layers.Dense(32, activation="relu")(norm(inputs))
h = layers.Dense(16, activation="relu")(h)
outputs = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss="binary_crossentropy",
    metrics=[keras.metrics.F1Score(threshold=0.5, name="f1")],
)
model.fit(X[:1280], y[:1280], validation_data=(X[1280:], y[1280:]), class_weight=weight, epochs=3, batch_size=16, verbose=2)
