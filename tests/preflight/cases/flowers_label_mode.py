"""image_dataset_from_directory gives integer labels by default, but categorical_crossentropy needs label_mode='categorical'."""

# finds: class-numbers-categorical-loss

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(4)
rng = np.random.default_rng(4)
root = tempfile.mkdtemp()
colours = {"daisy": (220, 220, 210), "rose": (200, 40, 60), "violet": (120, 60, 190), "sunflower": (230, 190, 30)}
for name, rgb in colours.items():
    os.makedirs(os.path.join(root, name))
    for i in range(60):
        pic = np.clip(np.array(rgb) + rng.normal(0, 45, (24, 24, 3)), 0, 255)
        keras.utils.save_img(os.path.join(root, name, f"{i:03d}.png"), pic, scale=False)

label_mode = "int"  # WRONG
label_mode = "categorical"  # RIGHT
train_ds, val_ds = keras.utils.image_dataset_from_directory(
    root, label_mode=label_mode, image_size=(24, 24), batch_size=16,
    validation_split=0.25, subset="both", seed=11)

model = keras.Sequential([
    keras.Input((24, 24, 3)),
    layers.Rescaling(1.0 / 255),
    layers.Conv2D(16, 3, activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(32, 3, activation="relu"),
    layers.GlobalAveragePooling2D(),
    layers.Dense(4, activation="softmax"),
])
model.compile(keras.optimizers.Adam(5e-3), loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=3, verbose=2)
print("val", model.evaluate(val_ds, verbose=0))
