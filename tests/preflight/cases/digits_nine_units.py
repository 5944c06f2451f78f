"""The digits go from 0 to 9, that is ten classes, but the last layer has only nine units."""

# finds: label-out-of-range

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(2)
rng = np.random.default_rng(2)
patterns = rng.integers(0, 2, size=(10, 12, 12)) * 255
labels = rng.integers(0, 10, size=1000)
images = np.clip(patterns[labels] + rng.normal(0, 60, (1000, 12, 12)), 0, 255)
images = images.astype("float32")[..., None] / 255.0

x_train, y_train = images[:800], labels[:800]
x_val, y_val = images[800:], labels[800:]

num_classes = labels.max()  # WRONG
num_classes = labels.max() + 1  # RIGHT

inputs = keras.Input(shape=(12, 12, 1))
h = layers.Conv2D(16, 3, activation="relu")(inputs)
h = layers.MaxPooling2D()(h)
h = layers.Flatten()(h)
h = layers.Dense(32, activation="relu")(h)
outputs = layers.Dense(int(num_classes), activation="softmax")(h)
net = keras.Model(inputs, outputs)
net.compile("adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
net.fit(x_train, y_train, epochs=3, batch_size=32, validation_data=(x_val, y_val), verbose=2)
print("val", net.evaluate(x_val, y_val, verbose=0))
