"""A softmax over time."""

# finds: softmax-over-wrong-axis
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 10, 4)).astype("float32")
y = x.argmax(axis=2)
model = keras.Sequential(
    [
        keras.Input((10, 4)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dense(4),
        keras.layers.Softmax(axis=1),  # WRONG
        keras.layers.Softmax(),  # RIGHT
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=3)
