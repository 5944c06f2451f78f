"""The Poisson loss takes the logarithm of the prediction, but the output is linear and can be negative: the loss is NaN or wrong; give a positive rate (exponential or softplus)."""

# finds: loss-not-finite

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(82)
rng = np.random.default_rng(81)
hour = rng.uniform(0, 24, 1500)
weekend = rng.integers(0, 2, 1500)
rate = np.exp(-0.3 + 1.5 * np.sin((hour - 8) / 24 * 2 * np.pi) + 0.5 * weekend)
calls = rng.poisson(rate).astype("float32").reshape(-1, 1)
angle = hour / 24 * 2 * np.pi
X = np.column_stack([np.sin(angle), np.cos(angle), weekend]).astype("float32")

inputs = keras.Input((3,))
h = layers.Dense(24, activation="relu")(inputs)
h = layers.Dense(24, activation="relu")(h)
outputs = layers.Dense(1)(h)  # WRONG
outputs = layers.Dense(1, activation="exponential")(h)  # RIGHT
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="poisson", metrics=["mae"])
model.fit(X[:1200], calls[:1200], validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("mean predicted and real:", model.predict(X[1200:], verbose=0).mean(), calls[1200:].mean())
