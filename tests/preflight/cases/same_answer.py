"""A mask that sets everything to 0."""

# finds: same-answer-for-all, dead-relu
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
mask = 0.0  # WRONG
mask = 1.0  # RIGHT
a = keras.Input((8,))
h = keras.layers.Dense(32, activation="relu")(a * mask)
model = keras.Model(a, keras.layers.Dense(4, activation="softmax")(h))
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
