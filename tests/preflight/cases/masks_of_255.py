"""Masks of 0 and 255 with binary_crossentropy."""

# finds: binary-targets, negative-loss
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.random((60, 32, 32, 3)).astype("float32")
masks = ((images.mean(axis=-1, keepdims=True) > 0.5) * 255).astype("float32")
masks = masks / 255  # RIGHT
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(1, 1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy")
model.fit(images, masks, epochs=3)
