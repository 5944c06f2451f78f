"""Healthy: per-token tagging of padded sequences, mask_zero and return_sequences, padding left out of loss by the mask."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(111)
rng = np.random.default_rng(111)
n, length, vocab = 1000, 14, 60
x, y = np.zeros((n, length), "int32"), np.zeros((n, length), "int32")
for i in range(n):
    k = rng.integers(5, length + 1)
    words = rng.integers(1, vocab, k)
    before = np.concatenate([[1], words[:-1]])
    x[i, :k], y[i, :k] = words, (words % 2) + 2 * (before > 40)

model = keras.Sequential([
    keras.Input((length,), dtype="int32"),
    layers.Embedding(vocab, 24, mask_zero=True),
    layers.Bidirectional(layers.LSTM(24, return_sequences=True)),
    layers.Dense(4, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
model.fit(x[:800], y[:800], sample_weight=(x[:800] > 0).astype("float32"), epochs=3, batch_size=20, verbose=2,
          validation_data=(x[800:], y[800:], (x[800:] > 0).astype("float32")))
