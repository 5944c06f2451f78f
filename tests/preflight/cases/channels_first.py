"""Images in PyTorch's layout."""

# finds: channels-first
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.random((200, 3, 32, 32)).astype("float32")
labels = rng.integers(0, 5, 200)
images = np.moveaxis(images, 1, -1)  # RIGHT
model = keras.Sequential(
    [
        keras.Input((32, 32, 3)),
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(5, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=3)
