"""len(dataset) already counts batches; dividing it by the batch size again makes an epoch of only a few batches, so most data go unused."""

# finds: steps-divided-twice

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(58)
rng = np.random.default_rng(58)
BATCH = 16
x = rng.normal(size=(2000, 8, 8, 1)).astype("float32")
y = (x[:, :4].mean(axis=(1, 2, 3)) > x[:, 4:].mean(axis=(1, 2, 3))).astype("int32")
train = tf.data.Dataset.from_tensor_slices((x[:1600], y[:1600])).shuffle(1600).batch(BATCH)
valid = tf.data.Dataset.from_tensor_slices((x[1600:], y[1600:])).batch(BATCH)
steps = len(train) // BATCH  # WRONG
steps = len(train)  # RIGHT

model = keras.Sequential([
    keras.Input((8, 8, 1)),
    layers.Conv2D(8, 3, activation="relu"),
    layers.Flatten(),
    layers.Dense(32, activation="relu"),
    layers.Dense(2, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.002), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train.repeat(), steps_per_epoch=steps, epochs=3, validation_data=valid, verbose=2)
print("valid", model.evaluate(valid, verbose=0))
