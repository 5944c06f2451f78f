"""Images and labels are shuffled as two separate datasets and then zipped, so each picture gets the label of another."""

# finds: shuffled-apart

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(12)
rng = np.random.default_rng(12)
y = rng.integers(0, 3, 900)
x = rng.normal(0.3, 0.1, (900, 12, 12, 1))
for k, label in enumerate(y):
    x[k, label * 4:label * 4 + 4] += 0.4
x = np.clip(x, 0, 1).astype("float32")

images = tf.data.Dataset.from_tensor_slices(x[:750])
targets = tf.data.Dataset.from_tensor_slices(y[:750])
train = tf.data.Dataset.zip((images.shuffle(750), targets.shuffle(750)))  # WRONG
train = tf.data.Dataset.zip((images, targets)).shuffle(750)  # RIGHT
train = train.batch(25).prefetch(tf.data.AUTOTUNE)
val = tf.data.Dataset.from_tensor_slices((x[750:], y[750:])).batch(50)

model = keras.Sequential([
    keras.Input((12, 12, 1)),
    layers.Conv2D(8, 3, activation="relu"),
    layers.Flatten(),
    layers.Dense(32, activation="relu"),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
