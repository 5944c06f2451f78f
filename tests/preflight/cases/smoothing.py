"""A label smoothing of 0.9."""

# finds: label-smoothing-too-high
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
y = keras.utils.to_categorical(y, 4)
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.9)  # WRONG
loss = keras.losses.CategoricalCrossentropy(label_smoothing=0.1)  # RIGHT
model.compile("adam", loss, metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
