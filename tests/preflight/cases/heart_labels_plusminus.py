"""The labels are -1 and +1, but binary crossentropy with a sigmoid needs 0 and 1, so the loss goes below zero and means nothing."""

# finds: binary-targets

import numpy as np
import tensorflow as tf
import keras

keras.utils.set_random_seed(6)
rng = np.random.default_rng(6)
age = rng.uniform(30, 80, 1200)
pressure = rng.normal(130, 15, 1200)
chol = rng.normal(200, 30, 1200)
risk = (age - 55) / 14 + (pressure - 130) / 15 + (chol - 200) / 30
sick = np.where(risk + rng.normal(0, 0.3, 1200) > 0, 1, -1)
table = np.stack([age, pressure, chol], axis=1).astype("float32")
train, test = table[:1000], table[1000:]
mean, std = train.mean(axis=0), train.std(axis=0)
train, test = (train - mean) / std, (test - mean) / std
sick = (sick + 1) // 2  # RIGHT
labels = sick.astype("float32")

ds = tf.data.Dataset.from_tensor_slices((train, labels[:1000])).shuffle(1000).batch(25)
test_ds = tf.data.Dataset.from_tensor_slices((test, labels[1000:])).batch(25)

model = keras.Sequential([
    keras.layers.Input(shape=(3,)),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(loss=keras.losses.BinaryCrossentropy(), optimizer=keras.optimizers.Adam(0.01),
              metrics=["accuracy"])
model.fit(ds, validation_data=test_ds, epochs=3, verbose=2)
print("test", model.evaluate(test_ds, verbose=0))
