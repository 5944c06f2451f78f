"""The dataset yields (x, y1, y2), so the second target is taken as sample weights; put both targets into one dict: (x, {...})."""

# finds: target-count

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(57)
rng = np.random.default_rng(57)
x = rng.uniform(-1, 1, size=(1500, 6)).astype("float32")
speed = (x[:, 0] + x[:, 1] * x[:, 2])[:, None].astype("float32")
angle = (x[:, 3] - 0.5 * x[:, 4])[:, None].astype("float32")

def pack(features, a, b):
    return features, a, b  # WRONG
    return features, {"speed": a, "angle": b}  # RIGHT


train = tf.data.Dataset.from_tensor_slices((x[:1200], speed[:1200], angle[:1200])).shuffle(1200).map(pack).batch(20)
valid = tf.data.Dataset.from_tensor_slices((x[1200:], speed[1200:], angle[1200:])).map(pack).batch(100)

inputs = keras.Input((6,))
h = layers.Dense(48, activation="relu")(inputs)
h = layers.Dense(24, activation="relu")(h)
out_speed = layers.Dense(1, name="speed")(h)
out_angle = layers.Dense(1, name="angle")(h)
model = keras.Model(inputs, {"speed": out_speed, "angle": out_angle})
model.compile(optimizer=keras.optimizers.Adam(0.004), loss="mse")
model.fit(train, validation_data=valid, epochs=3, verbose=2)
pred = model.predict(x[1200:], verbose=0)
print("mse speed", np.mean((pred["speed"] - speed[1200:]) ** 2), "angle", np.mean((pred["angle"] - angle[1200:]) ** 2))
