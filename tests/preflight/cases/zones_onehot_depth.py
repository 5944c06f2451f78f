"""The zones are numbered 1 to 4, so tf.one_hot(zone, 4) leaves class 0 unused and gives rows of zeros for zone 4; subtract 1 first."""

# finds: not-one-hot

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(15)
rng = np.random.default_rng(15)
xy = rng.uniform(-1, 1, size=(2000, 2)).astype("float32")
zone = 1 + (xy[:, 0] > 0).astype("int32") + 2 * (xy[:, 1] > 0).astype("int32")

def encode(point, z):
    return point, tf.one_hot(z, 4)  # WRONG
    return point, tf.one_hot(z - 1, 4)  # RIGHT


train = tf.data.Dataset.from_tensor_slices((xy[:1600], zone[:1600]))
train = train.shuffle(1600, seed=15).map(encode).batch(20).prefetch(2)
valid = tf.data.Dataset.from_tensor_slices((xy[1600:], zone[1600:])).map(encode).batch(50)

model = keras.Sequential([
    keras.Input((2,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile(loss="categorical_crossentropy", optimizer=keras.optimizers.Adam(0.005), metrics=["accuracy"])
model.fit(train, validation_data=valid, epochs=3, verbose=2)
probs = model.predict(valid, verbose=0)
print("zone 4 found", (probs.argmax(1)[zone[1600:] == 4] + 1 == 4).mean())
print("valid", model.evaluate(valid, verbose=0))
