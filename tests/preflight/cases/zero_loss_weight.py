"""An output whose loss is ignored."""

# finds: zero-loss-weight
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 6)).astype("float32")
a = keras.Input((6,))
h = keras.layers.Dense(16, activation="relu")(a)
model = keras.Model(
    a, [keras.layers.Dense(1, name="price")(h), keras.layers.Dense(1, activation="sigmoid", name="sold")(h)]
)
weights = [1.0, 0.0]  # WRONG
weights = [1.0, 0.5]  # RIGHT
model.compile("adam", ["mse", "binary_crossentropy"], loss_weights=weights)
model.fit(x, [x[:, 0] + x[:, 2], (x[:, 1] > 0).astype("float32")], epochs=3)
