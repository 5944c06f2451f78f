"""The classes are left and right arrows, but the augmentation mirrors the pictures at random, so the label no longer fits the picture."""

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(32)
rng = np.random.default_rng(32)
root = tempfile.mkdtemp()
for name in ["left", "right"]:
    os.makedirs(os.path.join(root, name))
    for k in range(150):
        image = rng.normal(50, 12, (24, 24, 3))
        row, col = rng.integers(9, 15), rng.integers(7, 12)
        for d in range(6):
            c = col + d if name == "left" else col + 5 - d
            image[row - d:row + d + 1, c] += 140
        keras.utils.save_img(os.path.join(root, name, f"{k}.png"), np.clip(image, 0, 255), scale=False)

args = dict(validation_split=0.2, seed=5, image_size=(24, 24), batch_size=16, label_mode="binary", verbose=False)
train = keras.utils.image_dataset_from_directory(root, subset="training", **args)
val = keras.utils.image_dataset_from_directory(root, subset="validation", **args)

augment = keras.Sequential([layers.RandomFlip("horizontal"), layers.RandomTranslation(0.1, 0.1)])  # WRONG
augment = keras.Sequential([layers.RandomFlip("vertical"), layers.RandomTranslation(0.1, 0.1)])  # RIGHT
inputs = keras.Input((24, 24, 3))
x = layers.Rescaling(1 / 255)(augment(inputs))
for filters in (16, 32):
    x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D()(x)
x = layers.Flatten()(x)
x = layers.Dense(32, activation="relu")(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
