"""The dataset is reshuffled at every pass and split with take/skip afterwards, so validation samples end up in the training set."""

# finds: split-after-reshuffle

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(11)
rng = np.random.default_rng(11)
centers = rng.normal(0, 1.5, (4, 8))
labels = rng.integers(0, 4, 1200)
features = (centers[labels] + rng.normal(size=(1200, 8))).astype("float32")

ds = tf.data.Dataset.from_tensor_slices((features, labels))
ds = ds.shuffle(1200, seed=1)  # WRONG
ds = ds.shuffle(1200, seed=1, reshuffle_each_iteration=False)  # RIGHT
val_ds = ds.take(240).batch(32)
train_ds = ds.skip(240).shuffle(960).batch(32).prefetch(tf.data.AUTOTUNE)

inputs = keras.Input((8,))
x = layers.Dense(32, activation="relu")(inputs)
x = layers.Dense(32, activation="relu")(x)
outputs = layers.Dense(4, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train_ds, validation_data=val_ds, epochs=3, verbose=2)
val_rows = {tuple(r) for r in np.concatenate([a for a, _ in val_ds])}
train_rows = {tuple(r) for r in np.concatenate([a for a, _ in train_ds])}
print("validation rows also trained on:", len(val_rows & train_rows))
