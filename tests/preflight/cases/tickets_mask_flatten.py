# finds: mask-lost
import keras
import numpy as np

rng = np.random.default_rng(7)
words = rng.integers(1, 500, (700, 30))
for row, length in zip(words, rng.integers(5, 31, 700), strict=True):
    row[length:] = 0
urgent = (words == words[0, 0]).any(axis=1) | (words[:, 0] > 250)
layers = [keras.layers.Embedding(500, 8, mask_zero=True)]
layers += [keras.layers.Flatten()]  # WRONG
layers += [keras.layers.GlobalAveragePooling1D()]  # RIGHT
layers += [keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
model = keras.Sequential([keras.Input((30,), dtype="int32"), *layers])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(words, urgent.astype("int32"), epochs=5, validation_split=0.2, verbose=0)
