"""cache() comes after the random augmentation, so every epoch repeats the augmented pictures of the first one."""

# finds: cached-too-late

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(35)
rng = np.random.default_rng(35)
y = rng.integers(0, 2, 600)
X = rng.normal(110, 25, (600, 20, 20, 3))
for i, k in enumerate(y):
    r, c = rng.integers(2, 10, 2)
    X[i, r:r + 8, c:c + 8] += np.array([70, 0, 0]) if k else np.array([0, 0, 70])
X = np.clip(X, 0, 255).astype("uint8")
Y = keras.utils.to_categorical(y, 2)

def decode(image, label):
    return tf.cast(image, tf.float32) / 255.0, label

def augment(image, label):
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_crop(image, (18, 18, 3))
    return image, label

train = tf.data.Dataset.from_tensor_slices((X[:500], Y[:500])).map(decode)
train = train.map(augment).cache().shuffle(500)  # WRONG
train = train.cache().shuffle(500).map(augment)  # RIGHT
train = train.batch(20).prefetch(tf.data.AUTOTUNE)
val = tf.data.Dataset.from_tensor_slices((X[500:, 1:19, 1:19], Y[500:])).map(decode).batch(20)

inputs = keras.Input((18, 18, 3))
x = layers.SeparableConv2D(16, 3, activation="relu")(inputs)
x = layers.Conv2D(16, 3, strides=2, activation="relu")(x)
x = layers.Flatten()(x)
outputs = layers.Dense(2, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(train, validation_data=val, epochs=3, verbose=2)
first, second = [{float(tf.reduce_sum(image)) for image, _ in train.unbatch()} for _ in range(2)]
print("pictures of one pass that come back unchanged in the next:", len(first & second), "of", len(first))
