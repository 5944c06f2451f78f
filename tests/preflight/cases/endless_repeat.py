"""The dataset is repeated endlessly but steps_per_epoch is not set, so the first epoch never finishes."""

# finds: endless-epoch

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(41)
rng = np.random.default_rng(41)
n, batch = 960, 32
digit = rng.integers(0, 4, n)
glyph = rng.uniform(0, 1, (4, 10, 10, 1))
images = (glyph[digit] + rng.normal(0, 0.3, (n, 10, 10, 1))).astype("float32")

train = tf.data.Dataset.from_tensor_slices((images[:768], digit[:768]))
train = train.shuffle(768).repeat().batch(batch).prefetch(tf.data.AUTOTUNE)
valid = tf.data.Dataset.from_tensor_slices((images[768:], digit[768:])).batch(batch)

model = keras.Sequential([
    keras.Input((10, 10, 1)),
    keras.layers.Conv2D(8, 3, activation="relu"),
    keras.layers.Flatten(),
    keras.layers.Dense(4, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train, epochs=3, validation_data=valid, verbose=2)  # WRONG
model.fit(train, epochs=3, steps_per_epoch=768 // batch, validation_data=valid, verbose=2)  # RIGHT
print("valid", model.evaluate(valid, verbose=0))
