"""shuffle=False in image_dataset_from_directory feeds the training pictures class by class, so each batch has one class and the last one wins."""

# finds: ordered-labels

import tempfile
from pathlib import Path
import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(27)
rng = np.random.default_rng(27)
base = Path(tempfile.mkdtemp())
for split, count in (("train", 150), ("valid", 40)):
    for k, name in enumerate(["apple", "banana", "cherry", "date"]):
        (base / split / name).mkdir(parents=True)
        for i in range(count):
            a = rng.uniform(40, 150, (16, 16, 3))
            a[4 * k:4 * k + 4] += 70
            keras.utils.save_img(base / split / name / f"{i:04d}.png", a, scale=False)

shuffle = False  # WRONG
shuffle = True  # RIGHT
train = keras.utils.image_dataset_from_directory(base / "train", image_size=(16, 16), batch_size=15, shuffle=shuffle, seed=5)
valid = keras.utils.image_dataset_from_directory(base / "valid", image_size=(16, 16), batch_size=40, shuffle=False)
train = train.prefetch(tf.data.AUTOTUNE)

model = keras.Sequential([
    keras.Input((16, 16, 3)),
    keras.layers.Rescaling(1 / 255),
    keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.002), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=3, validation_data=valid, verbose=2)
print("valid", model.evaluate(valid, verbose=0))
