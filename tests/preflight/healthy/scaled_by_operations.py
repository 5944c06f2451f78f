"""Images of 0 to 255, which the graph divides by 255 itself, without a layer for it."""

import keras
import numpy as np

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 256)
images = np.clip(rng.normal(100 + 50 * labels[:, None, None, None], 40, (256, 32, 32, 3)), 0, 255).astype("float32")
inputs = keras.Input((32, 32, 3))
x = keras.layers.RandomFlip("horizontal")(inputs)
x = x / 255.0
x = keras.layers.Conv2D(16, 3, activation="relu")(x)
x = keras.layers.GlobalAveragePooling2D()(x)
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=2)
