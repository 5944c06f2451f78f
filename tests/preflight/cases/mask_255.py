"""The borders of a segmentation mask are 255."""

# finds: label-out-of-range
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.random((60, 32, 32, 3)).astype("float32")
masks = (images.mean(axis=-1) > 0.5).astype("uint8")
masks[:, 0, :] = 255
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
        keras.layers.Conv2D(2, 1, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")  # WRONG
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(ignore_class=255))  # RIGHT
model.fit(images, masks, epochs=3)
