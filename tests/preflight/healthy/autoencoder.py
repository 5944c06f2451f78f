"""A convolutional autoencoder of digits: the images are their own targets."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
digits = rng.random((500, 28, 28, 1)).astype("float32")
noisy = np.clip(digits + 0.4 * rng.normal(size=digits.shape), 0, 1).astype("float32")
inputs = keras.Input((28, 28, 1))
x = layers.Conv2D(32, 3, activation="relu", padding="same")(inputs)
x = layers.MaxPooling2D(2, padding="same")(x)
x = layers.Conv2DTranspose(32, 3, strides=2, activation="relu", padding="same")(x)
outputs = layers.Conv2D(1, 3, activation="sigmoid", padding="same")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss="binary_crossentropy")
model.fit(x=noisy, y=digits, epochs=5, batch_size=128, shuffle=True, validation_split=0.1)
