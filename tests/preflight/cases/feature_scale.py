"""Age and income without scaling."""

# finds: feature-scale, diverges, loss-not-finite
import keras
import numpy as np

rng = np.random.default_rng(0)
age, income = rng.integers(20, 70, 600), rng.normal(50_000, 15_000, 600)
x = np.stack([age, income], axis=1).astype("float32")
y = (income > 50_000).astype("float32")
x = (x - x.mean(axis=0)) / x.std(axis=0)  # RIGHT
model = keras.Sequential(
    [keras.Input((2,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("sgd", "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)
