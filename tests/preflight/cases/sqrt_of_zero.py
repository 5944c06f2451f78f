"""The square root of a distance that is 0."""

# finds: gradient-not-finite, loss-not-finite
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 6)).astype("float32")
x[::10, 3:] = x[::10, :3]
a = keras.Input((6,))
left, right = a[:, :3], a[:, 3:]
shared = keras.layers.Dense(8)
squares = keras.ops.sum((shared(left) - shared(right)) ** 2, axis=1, keepdims=True)
model = keras.Model(a, keras.ops.sqrt(squares))  # WRONG
model = keras.Model(a, keras.ops.sqrt(squares + 1e-6))  # RIGHT
model.compile("adam", "mse")
model.fit(x, np.abs(x[:, :3] - x[:, 3:]).sum(axis=1) + 0.5, epochs=3)
