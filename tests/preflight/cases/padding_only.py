"""Half of the texts are empty."""

# finds: padded-entirely
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.integers(1, 100, (400, 12))
x[::2] = 0  # WRONG
y = rng.integers(0, 2, 400)
model = keras.Sequential(
    [
        keras.Input((12,), dtype="int32"),
        keras.layers.Embedding(100, 8, mask_zero=True),
        keras.layers.LSTM(8),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)
