"""Images from 0 to 1 for a model that scales them itself."""

# finds: pretrained-range
import keras
import numpy as np

rng = np.random.default_rng(0)
images = rng.integers(0, 256, (48, 64, 64, 3)).astype("float32")
labels = rng.integers(0, 2, 48)
images = images / 255  # WRONG
base = keras.applications.EfficientNetV2B0(include_top=False, weights=None, input_shape=(64, 64, 3), pooling="avg")
base.trainable = False
model = keras.Sequential([keras.Input((64, 64, 3)), base, keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(images, labels, epochs=2)
