"""A deep network of depthwise convolutions with BatchNormalization, trained from the start."""

import keras
import numpy as np

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 64)
images = rng.normal(labels[:, None, None, None] - 0.5, 0.5, (64, 16, 16, 3)).astype("float32")
inputs = keras.Input((16, 16, 3))
x = keras.layers.Conv2D(64, 3, padding="same", use_bias=False)(inputs)
for _ in range(12):
    x = keras.layers.DepthwiseConv2D(3, padding="same", use_bias=False)(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.ReLU(6.0)(x)
x = keras.layers.GlobalAveragePooling2D()(x)
x = keras.layers.Dropout(0.2)(x)
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, batch_size=16, epochs=2)
