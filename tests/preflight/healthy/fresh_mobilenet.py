"""A MobileNetV2 without weights, trained from the start, behind its own preprocess_input."""

import keras
import numpy as np

rng = np.random.default_rng(0)
labels = rng.integers(0, 2, 64)
images = np.clip(rng.normal(100 + 50 * labels[:, None, None, None], 40, (64, 64, 64, 3)), 0, 255).astype("float32")
base = keras.applications.MobileNetV2(input_shape=(64, 64, 3), include_top=False, weights=None, pooling="avg")
inputs = keras.Input((64, 64, 3))
x = keras.applications.mobilenet_v2.preprocess_input(inputs)
x = base(x)
x = keras.layers.Dropout(0.2)(x)
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=2)
