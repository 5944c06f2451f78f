"""A U-Net: masks of three classes, trained with sparse labels."""

import keras
import numpy as np
from keras import layers

rng = np.random.default_rng(0)
images = rng.random((48, 64, 64, 3)).astype("float32")
masks = (images.mean(-1, keepdims=True) * 3).astype("uint8").clip(0, 2)
inputs = keras.Input((64, 64, 3))
x = layers.Conv2D(16, 3, strides=2, padding="same")(inputs)
x = layers.BatchNormalization()(x)
x = layers.Activation("relu")(x)
previous = x
for filters in (32, 64):
    x = layers.Activation("relu")(x)
    x = layers.SeparableConv2D(filters, 3, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    residual = layers.Conv2D(filters, 1, strides=2, padding="same")(previous)
    x = layers.add([x, residual])
    previous = x
for filters in (64, 32, 16):
    x = layers.Activation("relu")(x)
    x = layers.Conv2DTranspose(filters, 3, padding="same")(x)
    x = layers.BatchNormalization()(x)
    x = layers.UpSampling2D(2)(x)
outputs = layers.Conv2D(3, 3, activation="softmax", padding="same")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy")
model.fit(images, masks, batch_size=8, epochs=3, validation_split=0.2)
