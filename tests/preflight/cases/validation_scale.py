"""The test images were not divided by 255."""

# finds: validation-scaled-differently
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.integers(0, 256, (400, 16, 16, 3)).astype("float32")
labels = (images.mean(axis=(1, 2, 3)) > 127).astype("int32")
train, test = images[:300] / 255, images[300:]
test = test / 255  # RIGHT
model = keras.Sequential(
    [
        keras.layers.Conv2D(8, 3, activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(train, labels[:300], epochs=3, validation_data=(test, labels[300:]))
