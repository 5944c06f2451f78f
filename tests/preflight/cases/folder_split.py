"""The two subsets are split with different seeds, so most validation pictures are also in the training set."""

# finds: validation-is-training

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(10)
rng = np.random.default_rng(10)
root = tempfile.mkdtemp()
for label, colour in {"leaf": (60, 140, 60), "rust": (140, 90, 50), "soil": (90, 80, 120)}.items():
    os.makedirs(os.path.join(root, label))
    for k in range(80):
        image = rng.normal(100, 30, (20, 20, 3)) * 0.5 + np.array(colour) * 0.5
        keras.utils.save_img(os.path.join(root, label, f"{k:03d}.png"), np.clip(image, 0, 255), scale=False)

common = dict(directory=root, validation_split=0.25, image_size=(20, 20), batch_size=16, label_mode="categorical", verbose=False)
train = keras.utils.image_dataset_from_directory(subset="training", seed=123, **common)
val = keras.utils.image_dataset_from_directory(subset="validation", seed=321, **common)  # WRONG
val = keras.utils.image_dataset_from_directory(subset="validation", seed=123, **common)  # RIGHT
print("files in both:", len(set(train.file_paths) & set(val.file_paths)))
classes = train.class_names

inputs = keras.Input((20, 20, 3))
x = layers.Rescaling(1 / 255)(inputs)
x = layers.RandomFlip("horizontal")(x)
x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
x = layers.Conv2D(32, 3, strides=2, activation="relu")(x)
x = layers.GlobalAveragePooling2D()(x)
outputs = layers.Dense(len(classes), activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
