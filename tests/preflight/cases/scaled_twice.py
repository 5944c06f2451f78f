"""Divided by 255 in the data and in the model."""

# finds: scaled-twice
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.integers(0, 256, (400, 16, 16, 3)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 127).astype("int32")
images = images / 255  # WRONG
model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=3)
