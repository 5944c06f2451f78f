"""Unscaled pixels from 0 to 255."""

# finds: image-range
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.integers(0, 256, (400, 16, 16, 3)).astype("uint8")
labels = (images.mean(axis=(1, 2, 3)) > 127).astype("int32")
model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        keras.layers.Rescaling(1 / 255),  # RIGHT
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=3)
