"""A language model whose target is its input."""

# finds: target-not-shifted
import keras
import numpy as np

rng = np.random.default_rng(0)
tokens = rng.integers(0, 100, (300, 21))
x, y = tokens[:, :-1], tokens[:, :-1]  # WRONG
x, y = tokens[:, :-1], tokens[:, 1:]  # RIGHT
model = keras.Sequential(
    [
        keras.Input((20,), dtype="int32"),
        keras.layers.Embedding(100, 16),
        keras.layers.LSTM(16, return_sequences=True),
        keras.layers.Dense(100, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)
