"""The name accuracy has a threshold of 0.5, on logits too."""

# finds: wrong-accuracy
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
loss = keras.losses.BinaryCrossentropy(from_logits=True)
model.compile("adam", loss, metrics=["accuracy"])  # WRONG
model.compile("adam", loss, metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)])  # RIGHT
model.fit(x, y, epochs=5, validation_split=0.2)
