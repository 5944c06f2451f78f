"""Some values of the table are missing (NaN) and were not filled; one such row turns the weights into NaN and nothing is learned."""

# finds: nan-in-input

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(73)
rng = np.random.default_rng(73)
n = 1200
table = rng.normal([50, 120, 0.3, 25], [15, 20, 0.1, 4], (n, 4))
target = ((table[:, 0] - 50) / 15 + (table[:, 1] - 120) / 20 > 0).astype("float32")
table[rng.random((n, 4)) < 0.03] = np.nan

train, test = slice(0, 1000), slice(1000, None)
median = np.nanmedian(table[train], axis=0)
missing = np.isnan(table).astype("float32")
filled = table  # WRONG
filled = np.where(np.isnan(table), median, table)  # RIGHT
mean, std = np.nanmean(table[train], axis=0), np.nanstd(table[train], axis=0)
features = np.concatenate([(filled - mean) / std, missing], axis=1).astype("float32")

inputs = keras.Input((8,))
h = layers.Dense(32, activation="relu")(inputs)
h = layers.Dropout(0.2)(h)
outputs = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(features[train], target[train], validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("test:", model.evaluate(features[test], target[test], verbose=0))
