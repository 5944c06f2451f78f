"""The whole model is frozen, not just the base."""

# finds: nothing-trainable
import keras
import numpy as np

rng = np.random.default_rng(0)
base = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu")])
base.trainable = False
model = keras.Sequential([keras.Input((8,)), base, keras.layers.Dense(4, activation="softmax")])
model.trainable = False  # WRONG
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
