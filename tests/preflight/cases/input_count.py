"""A model with two inputs, and a single array."""

# finds: input-count
import keras
import numpy as np

rng = np.random.default_rng(0)
a, b = keras.Input((4,)), keras.Input((3,))
model = keras.Model([a, b], keras.layers.Dense(1)(keras.layers.concatenate([a, b])))
model.compile("adam", "mse")
x1, x2 = rng.normal(size=(300, 4)).astype("float32"), rng.normal(size=(300, 3)).astype("float32")
y = x1[:, 0] + x2[:, 0]
model.fit(x1, y, epochs=3)  # WRONG
model.fit([x1, x2], y, epochs=3)  # RIGHT
