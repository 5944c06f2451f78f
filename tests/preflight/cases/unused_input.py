"""One of two inputs is forgotten in the concatenation."""

# finds: unused-input
import keras
import numpy as np

rng = np.random.default_rng(0)
a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
joined = keras.layers.concatenate([a, a])  # WRONG
joined = keras.layers.concatenate([a, b])  # RIGHT
model = keras.Model([a, b], keras.layers.Dense(1)(joined))
model.compile("adam", "mse")
x1, x2 = rng.normal(size=(300, 4)).astype("float32"), rng.normal(size=(300, 3)).astype("float32")
model.fit([x1, x2], x1[:, 0] + x2[:, 0], epochs=3)
