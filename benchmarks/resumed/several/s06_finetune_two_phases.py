# Transfer learning in two phases: the frozen base is trained with a new head, then unfrozen, recompiled with a small rate and trained on (initial_epoch).
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(123)

IMG = 16
BATCH = 32


def make_images(n, classes):
    labels = tf.random.uniform((n,), 0, classes, dtype=tf.int32)
    imgs = tf.random.uniform((n, IMG, IMG, 3))
    stripes = tf.cast(tf.range(IMG)[None, :] % (labels[:, None] + 2) == 0, tf.float32)
    imgs = 0.6 * imgs + 0.4 * stripes[:, :, None, None]
    return imgs, labels


# "pretrained" base: trained on another task first
src_x, src_y = make_images(384, 6)
base_in = keras.Input((IMG, IMG, 3))
h = layers.Conv2D(8, 3, activation="relu", padding="same", name="conv1")(base_in)
h = layers.MaxPooling2D()(h)
h = layers.Conv2D(16, 3, padding="same", name="conv2")(h)
h = layers.BatchNormalization(name="bn2")(h)
h = layers.ReLU()(h)
base = keras.Model(base_in, h, name="base")
pre = keras.Sequential([base, layers.GlobalAveragePooling2D(), layers.Dense(6, activation="softmax")])
pre.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
pre_hist = pre.fit(src_x, src_y, epochs=3, batch_size=BATCH, verbose=2)

# target task
x, y = make_images(256, 3)
train = tf.data.Dataset.from_tensor_slices((x[:192], y[:192])).shuffle(192).batch(BATCH).prefetch(tf.data.AUTOTUNE)
val = tf.data.Dataset.from_tensor_slices((x[192:], y[192:])).batch(BATCH)

base.trainable = False
inputs = keras.Input((IMG, IMG, 3))
z = layers.RandomFlip("horizontal")(inputs)
z = base(z, training=False)
z = layers.GlobalAveragePooling2D()(z)
z = layers.Dropout(0.2)(z)
outputs = layers.Dense(3)(z)
model = keras.Model(inputs, outputs)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-2), loss, metrics=["accuracy"])

INITIAL, FINE = 5, 4
history = model.fit(train, epochs=INITIAL, validation_data=val, verbose=2)

base.trainable = True
for layer in base.layers[:2]:
    layer.trainable = False
model.compile(keras.optimizers.Adam(1e-4), loss, metrics=["accuracy"])
print("trainable:", len(model.trainable_variables))
history_fine = model.fit(train, epochs=INITIAL + FINE, initial_epoch=history.epoch[-1] + 1,
                         validation_data=val, verbose=2)

acc = history.history["accuracy"] + history_fine.history["accuracy"]
val_loss = history.history["val_loss"] + history_fine.history["val_loss"]

arrays = {"acc": np.array(acc), "val_loss": np.array(val_loss), "fine_epochs": np.array(history_fine.epoch)}
for k, v in pre_hist.history.items():
    arrays["pre_" + k] = np.array(v)
for name, m in (("pre", pre), ("model", model)):
    for i, v in enumerate(m.variables):
        arrays[f"{name}_var_{i}"] = np.asarray(v)
    for i, v in enumerate(m.optimizer.variables):
        arrays[f"{name}_opt_{i}"] = np.asarray(v)
arrays["logits"] = model.predict(x[:12], verbose=0)
np.savez("result.npz", **arrays)
