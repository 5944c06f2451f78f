"""Star ratings with halves, used as class numbers."""

# finds: fractional-labels
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.clip(np.round(x[:, 0] + 2, 1), 0, 3) + 0.5  # WRONG
y = np.clip(np.round(x[:, 0] + 2), 0, 3).astype("int32")  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
