"""A learning rate of 1.0 is far too high for Adam; the weights are thrown about and the network never learns (try 0.001)."""

# finds: learning-rate

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(24)
rng = np.random.default_rng(24)
n = 1000
sign = rng.integers(0, 5, n)
template = rng.uniform(0, 1, (5, 16, 16, 3))
imgs = np.clip(template[sign] + rng.normal(0, 0.25, (n, 16, 16, 3)), 0, 1).astype("float32")

inputs = keras.Input((16, 16, 3))
x = layers.Conv2D(16, 3, activation="relu")(inputs)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(32, 3, activation="relu")(x)
x = layers.Flatten()(x)
x = layers.Dense(32, activation="relu")(x)
outputs = layers.Dense(5, activation="softmax")(x)
model = keras.Model(inputs, outputs)
optimizer = keras.optimizers.Adam(learning_rate=1.0)  # WRONG
optimizer = keras.optimizers.Adam(learning_rate=0.001)  # RIGHT
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(imgs[:800], sign[:800], epochs=3, batch_size=32, validation_data=(imgs[800:900], sign[800:900]), verbose=2)
print("test", model.evaluate(imgs[900:], sign[900:], verbose=0))
