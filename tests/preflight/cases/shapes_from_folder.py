"""The path given to image_dataset_from_directory is one level too high: its only subfolder is taken as the single class, so every label is 0."""

# finds: one-class-only

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(9)
rng = np.random.default_rng(9)
root = tempfile.mkdtemp()
for name in ["circle", "square"]:
    folder = os.path.join(root, "train", name)
    os.makedirs(folder)
    for k in range(100):
        yy, xx = np.mgrid[:24, :24] - rng.integers(9, 15, (2, 1, 1))
        shape = (yy ** 2 + xx ** 2 < 36) if name == "circle" else (abs(yy + xx) + abs(yy - xx) < 9)
        image = rng.normal(60, 10, (24, 24, 3)) + shape[..., None] * 120
        keras.utils.save_img(os.path.join(folder, f"{k}.png"), np.clip(image, 0, 255), scale=False)

directory = root  # WRONG
directory = os.path.join(root, "train")  # RIGHT
options = dict(image_size=(24, 24), batch_size=8, validation_split=0.2, seed=9, verbose=False)
train = keras.utils.image_dataset_from_directory(directory, subset="training", **options)
val = keras.utils.image_dataset_from_directory(directory, subset="validation", **options)

model = keras.Sequential([
    keras.Input((24, 24, 3)),
    layers.Rescaling(1 / 127.5, offset=-1),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense(2, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
print("classes:", train.class_names)
