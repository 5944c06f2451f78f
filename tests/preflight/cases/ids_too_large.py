"""The largest id has no row."""

# finds: id-out-of-range
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.integers(1, 101, (400, 12))
y = (x[:, 0] > 50).astype("float32")
model = keras.Sequential(
    [
        keras.Input((12,), dtype="int32"),
        keras.layers.Embedding(100, 8),  # WRONG
        keras.layers.Embedding(101, 8),  # RIGHT
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)
