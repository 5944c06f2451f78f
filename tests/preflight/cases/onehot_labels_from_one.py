"""The classes are numbered 1 to 6, so to_categorical makes seven columns (0 to 6) while the model has six outputs; subtract 1 first."""

# finds: target-shape

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(67)
rng = np.random.default_rng(67)
activity = rng.integers(1, 7, 1000)
t = np.arange(40)
freq = 0.15 * activity[:, None]
signal = np.stack([np.sin(freq * t + rng.uniform(0, 6, (1000, 1))), np.cos(freq * t + rng.uniform(0, 6, (1000, 1)))], axis=-1)
X = (signal + rng.normal(0, 0.2, signal.shape)).astype("float32")

y = keras.utils.to_categorical(activity)  # WRONG
y = keras.utils.to_categorical(activity - 1, num_classes=6)  # RIGHT
model = keras.Sequential([
    keras.Input((40, 2)),
    layers.Conv1D(32, 9, activation="relu"),
    layers.MaxPooling1D(2),
    layers.Conv1D(32, 5, activation="relu"),
    layers.GlobalMaxPooling1D(),
    layers.Dense(6, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(X[:800], y[:800], validation_data=(X[800:], y[800:]), epochs=3, batch_size=16, verbose=2)
