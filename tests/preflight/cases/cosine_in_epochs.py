"""CosineDecay counts batches, but decay_steps was given in epochs: the learning rate is zero after three batches."""

# finds: schedule-too-short

import math
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(29)
rng = np.random.default_rng(29)
y = rng.integers(0, 4, 800)
X = rng.normal(0.4, 0.15, (800, 16, 16, 3))
for i, k in enumerate(y):
    X[i, (k // 2) * 8:(k // 2) * 8 + 8, (k % 2) * 8:(k % 2) * 8 + 8, 0] += 0.4
X = np.clip(X, 0, 1).astype("float32")

batch, epochs = 16, 3
train = tf.data.Dataset.from_tensor_slices((X[:640], y[:640])).shuffle(640).batch(batch)
val = tf.data.Dataset.from_tensor_slices((X[640:], y[640:])).batch(batch)
decay_steps = epochs  # WRONG
decay_steps = epochs * math.ceil(640 / batch)  # RIGHT
schedule = keras.optimizers.schedules.CosineDecay(4e-3, decay_steps=decay_steps)

model = keras.Sequential([
    keras.Input((16, 16, 3)),
    layers.Conv2D(16, 3, strides=2, activation="relu"),
    layers.Conv2D(16, 3, activation="relu"),
    layers.Flatten(),
    layers.Dense(4),
])
model.compile(
    optimizer=keras.optimizers.Adam(schedule),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(train, validation_data=val, epochs=epochs, verbose=2)
