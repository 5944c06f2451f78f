"""28 by 28 images for a model that expects 784 numbers."""

# finds: input-shape
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.random((300, 28, 28)).astype("float32")
digits = rng.integers(0, 10, 300)
images = images.reshape(-1, 784)  # RIGHT
model = keras.Sequential(
    [keras.Input((784,)), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10, activation="softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images, digits, epochs=3)
