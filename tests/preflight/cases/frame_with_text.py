"""A table with a column of text."""

# finds: text-input, step-fails
import keras
import numpy as np
import pandas as pd

rng = np.random.default_rng(0)
frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200), "city": rng.choice(["Rome", "Oslo"], 200)})
target = frame["a"] - frame["b"]
frame["city"] = (frame["city"] == "Rome").astype("float32")  # RIGHT
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(frame, target, epochs=2, validation_split=0.2)
