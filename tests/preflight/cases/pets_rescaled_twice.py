"""The pixels are divided by 255 in the pipeline and once more by the Rescaling layer in the model, so the network sees values below 0.004."""

# finds: scaled-twice

import os
import tempfile
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(22)
rng = np.random.default_rng(22)
folder = tempfile.mkdtemp()
for kind in ("cat", "dog"):
    os.makedirs(os.path.join(folder, kind))
    for i in range(130):
        img = rng.uniform(60, 190, (20, 20, 3))
        r, c = rng.integers(0, 14, 2)
        if kind == "cat":
            img[r:r + 6, c:c + 2] += 90
        else:
            img[r:r + 2, c:c + 6] += 90
        keras.utils.save_img(os.path.join(folder, kind, f"{i}.png"), np.clip(img, 0, 255), scale=False)

train_ds, val_ds = keras.utils.image_dataset_from_directory(
    folder, label_mode="binary", image_size=(20, 20), batch_size=8, validation_split=0.2, subset="both", seed=3)
train_ds = train_ds.map(lambda x, y: (x / 255.0, y))  # WRONG
val_ds = val_ds.map(lambda x, y: (x / 255.0, y))  # WRONG

model = keras.Sequential([
    keras.Input((20, 20, 3)),
    layers.Rescaling(1.0 / 255),
    layers.Conv2D(16, 6, activation="relu"),
    layers.GlobalMaxPooling2D(),
    layers.Dense(16, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=3, verbose=2)
print("val", model.evaluate(val_ds, verbose=0))
