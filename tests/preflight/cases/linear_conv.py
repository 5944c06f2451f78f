"""Convolutions without an activation."""

# finds: linear-stack
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.random((400, 16, 16, 3)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 0.5).astype("int32")
model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        keras.layers.Conv2D(16, 3),  # WRONG
        keras.layers.Conv2D(16, 3, activation="relu"),  # RIGHT
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=3)
