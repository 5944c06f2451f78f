"""Dataset.map returns a new dataset; the result is not assigned, so the values are never scaled and the model gets raw numbers."""

# finds: feature-scale

import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(25)
rng = np.random.default_rng(25)
n = 1600
area = rng.uniform(200, 4000, n)
rooms = rng.integers(1, 9, n)
year = rng.uniform(1900, 2020, n)
price = 0.9 * (area - 2100) / 1100 + 0.3 * (rooms - 4.5) / 2.3 + 0.5 * (year - 1960) / 35 + rng.normal(0, 0.1, n)
x = np.column_stack([area, rooms, year]).astype("float32")
y = price.astype("float32")
mean = x[:1280].mean(axis=0)
std = x[:1280].std(axis=0)

def standardize(features, target):
    return (features - mean) / std, target


train = tf.data.Dataset.from_tensor_slices((x[:1280], y[:1280])).shuffle(1280)
valid = tf.data.Dataset.from_tensor_slices((x[1280:], y[1280:]))
train.map(standardize)  # WRONG
valid.map(standardize)  # WRONG
train = train.map(standardize)  # RIGHT
valid = valid.map(standardize)  # RIGHT
train = train.batch(16).prefetch(tf.data.AUTOTUNE)
valid = valid.batch(64)

model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="mse", metrics=["mae"])
model.fit(train, validation_data=valid, epochs=3, verbose=2)
print("val", model.evaluate(valid, verbose=0), "variance", y[1280:].var())
