"""A cast to integers after the division."""

# finds: constant-input
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.integers(0, 255, (400, 16, 16, 3))
labels = (images.mean(axis=(1, 2, 3)) > 127).astype("int32")
images = (images / 255).astype("uint8")  # WRONG
images = (images / 255).astype("float32")  # RIGHT
model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=3)
