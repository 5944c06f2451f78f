"""Three Dense layers without an activation."""

# finds: linear-stack
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] * 2 - x[:, 1]).astype("float32")
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(64),  # WRONG
        keras.layers.Dense(64),  # WRONG
        keras.layers.Dense(64, activation="relu"),  # RIGHT
        keras.layers.Dense(64, activation="relu"),  # RIGHT
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y, epochs=5, validation_split=0.2)
