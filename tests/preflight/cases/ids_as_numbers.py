"""Word ids passed to a Dense layer."""

# finds: ids-as-numbers
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.integers(1, 5000, (600, 20))
y = (x[:, 0] > 2500).astype("float32")
model = keras.Sequential(
    [
        keras.Input((20,)),
        keras.layers.Embedding(5000, 16),  # RIGHT
        keras.layers.Flatten(),  # RIGHT
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)
