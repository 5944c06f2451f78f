"""validation_split only works for arrays; a tf.data.Dataset must be split by hand and passed as validation_data."""

# finds: arguments-for-dataset

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(68)
rng = np.random.default_rng(68)
tokens = rng.integers(1, 100, (1000, 15)).astype("int32")
y = (np.isin(tokens, np.arange(1, 8)).sum(axis=1) > 0).astype("int32")

train_ds = tf.data.Dataset.from_tensor_slices((tokens[:800], y[:800])).shuffle(800).batch(20).prefetch(2)
val_ds = tf.data.Dataset.from_tensor_slices((tokens[800:], y[800:])).batch(50)
held_out = {"validation_split": 0.2}  # WRONG
held_out = {"validation_data": val_ds}  # RIGHT

inputs = keras.Input((15,), dtype="int32")
x = layers.Embedding(100, 8)(inputs)
x = layers.Conv1D(16, 1, activation="relu")(x)
x = layers.GlobalMaxPooling1D()(x)
outputs = layers.Dense(1, activation="sigmoid")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train_ds, epochs=3, verbose=2, **held_out)
