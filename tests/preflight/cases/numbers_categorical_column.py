"""A column of class numbers with the one-hot loss."""

# finds: class-numbers-categorical-loss
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
y = y[:, None]  # WRONG
y = keras.utils.to_categorical(y, 4)  # RIGHT
model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(4, activation="softmax")]
)
model.compile("adam", "categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
