"""Five units and a single target."""

# finds: target-shape
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] * 2 - x[:, 1]).astype("float32")
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(32, activation="relu"),
        keras.layers.Dense(5),  # WRONG
        keras.layers.Dense(1),  # RIGHT
    ]
)
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y[:, None], epochs=5, validation_split=0.2)
