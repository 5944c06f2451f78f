"""Categories as text, straight into a Dense layer."""

# finds: text-input
import keras
import numpy as np

rng = np.random.default_rng(0)
city = rng.choice(["Rome", "Oslo", "Lima"], 400)
rent = (rng.normal(size=400) + 2 * (city == "Oslo")).astype("float32")
lookup = keras.layers.StringLookup(vocabulary=["Rome", "Oslo", "Lima"], output_mode="one_hot")
x = city[:, None]  # WRONG
x = np.asarray(lookup(city))  # RIGHT
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, rent, epochs=3)
