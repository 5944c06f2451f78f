"""Two outputs and targets for only one."""

# finds: target-count
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 6)).astype("float32")
price, sold = x[:, 0] + x[:, 2], (x[:, 1] > 0).astype("float32")
a = keras.Input((6,))
h = keras.layers.Dense(16, activation="relu")(a)
model = keras.Model(a, [keras.layers.Dense(1)(h), keras.layers.Dense(1, activation="sigmoid")(h)])
model.compile("adam", ["mse", "binary_crossentropy"])
model.fit(x, price, epochs=3)  # WRONG
model.fit(x, [price, sold], epochs=3)  # RIGHT
