# Pictures from a class-per-folder tree of PNG files (image_dataset_from_directory), augmentation layers in the model, ModelCheckpoint(save_freq=int) and a callback that keeps only the last three checkpoint files.
import glob
import os
import pathlib

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(41)

# --- write the data set -----------------------------------------------------
data_dir = pathlib.Path("shapes")
rng = np.random.default_rng(0)
yy, xx = np.mgrid[0:20, 0:20]
for cls in ("circle", "cross", "square"):
    (data_dir / cls).mkdir(parents=True, exist_ok=True)
    for i in range(140):
        cx, cy = rng.integers(7, 13, 2)
        r = rng.integers(3, 6)
        if cls == "circle":
            m = (xx - cx) ** 2 + (yy - cy) ** 2 <= r * r
        elif cls == "square":
            m = (abs(xx - cx) <= r) & (abs(yy - cy) <= r)
        else:
            m = ((abs(xx - cx) <= 1) & (abs(yy - cy) <= r)) | ((abs(yy - cy) <= 1) & (abs(xx - cx) <= r))
        img = rng.integers(0, 90, (20, 20, 3))
        img[m] += rng.integers(40, 120, 3)
        tf.io.write_file(str(data_dir / cls / f"{i:04d}.png"), tf.io.encode_png(img.astype("uint8")))

common = dict(validation_split=0.2, seed=1337, image_size=(16, 16), batch_size=16)
train_ds = keras.utils.image_dataset_from_directory(data_dir, subset="training", **common)
val_ds = keras.utils.image_dataset_from_directory(data_dir, subset="validation", **common)
print(train_ds.class_names)
train_ds = train_ds.prefetch(tf.data.AUTOTUNE)
val_ds = val_ds.cache().prefetch(tf.data.AUTOTUNE)

model = keras.Sequential(
    [
        keras.Input((16, 16, 3)),
        layers.RandomFlip("horizontal"),
        layers.RandomRotation(0.1),
        layers.RandomZoom(0.1),
        layers.Rescaling(1.0 / 255),
        layers.SeparableConv2D(12, 3, padding="same"),
        layers.BatchNormalization(),
        layers.Activation("relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dropout(0.3),
        layers.Dense(3),
    ]
)
model.compile(
    keras.optimizers.Adam(8e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)


class KeepLast(keras.callbacks.Callback):
    """Throws away the oldest checkpoints."""

    def __init__(self, pattern, keep=3):
        super().__init__()
        self.pattern, self.keep = pattern, keep
        self.removed = 0

    def on_train_batch_end(self, batch, logs=None):
        files = sorted(glob.glob(self.pattern))
        for f in files[: -self.keep]:
            os.remove(f)
            self.removed += 1


keeper = KeepLast("ckpt/*.keras")
history = model.fit(
    train_ds,
    validation_data=val_ds,
    epochs=8,
    callbacks=[keras.callbacks.ModelCheckpoint("ckpt/{epoch:02d}-{batch:03d}.keras", save_freq=13), keeper],
    verbose=2,
)

out = {f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({f"hist_{k}": np.array(v) for k, v in history.history.items()})
files = sorted(glob.glob("ckpt/*.keras"))
out["ckpt_names"] = np.array([[int(p) for p in pathlib.Path(f).stem.split("-")] for f in files])
out["removed"] = np.array(keeper.removed)
for n, f in enumerate(files):
    for i, w in enumerate(keras.models.load_model(f).get_weights()):
        out[f"ckpt{n}_{i}"] = w
out["pred"] = model.predict(val_ds.take(1), verbose=0)
np.savez("result.npz", **out)
