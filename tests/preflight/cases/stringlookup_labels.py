"""StringLookup keeps index 0 for unknown words, so the labels run from 1 to 4 while the output has only 4 units (0 to 3)."""

# finds: label-out-of-range

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(61)
rng = np.random.default_rng(61)
names = np.array(["iris", "rose", "tulip", "daisy"])
index = rng.integers(0, 4, 800)
centers = np.array([[1, 3, 0.5], [4, 1, 2], [2, 5, 3], [5, 4, 1]])
X = (centers[index] + rng.normal(0, 0.6, (800, 3))).astype("float32")
labels = names[index]

lookup = layers.StringLookup(vocabulary=list(names))  # WRONG
lookup = layers.StringLookup(vocabulary=list(names), num_oov_indices=0)  # RIGHT
y = np.asarray(lookup(labels))

normalizer = layers.Normalization()
normalizer.adapt(X[:640])
model = keras.Sequential([
    keras.Input((3,)),
    normalizer,
    layers.Dense(24, activation="relu"),
    layers.Dense(len(names), activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(X[:640], y[:640], validation_data=(X[640:], y[640:]), epochs=3, batch_size=16, verbose=2)
