"""A momentum of 1."""

# finds: momentum-too-high, learning-rate, diverges
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = x[:, 0] + x[:, 1]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.RMSprop(1e-3, rho=1.0)  # WRONG
optimizer = keras.optimizers.RMSprop(1e-3, rho=0.9)  # RIGHT
model.compile(optimizer, "mse")
model.fit(x, y, epochs=5, validation_split=0.2)
