"""Lists of numbers, which Keras 3 rejects."""

# finds: step-fails
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(100, 2)).round(2).tolist()
y = [a + b for a, b in x]
x, y = np.array(x), np.array(y)  # RIGHT
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y, epochs=2)
