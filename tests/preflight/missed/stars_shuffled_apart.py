"""Features and labels are shuffled one after the other with np.random.shuffle, so each row gets the label of another row."""

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(30)
rng = np.random.default_rng(30)
centres = rng.normal(0, 1.2, (4, 10))
y = np.repeat(np.arange(4), 300)
x = (centres[y] + rng.normal(0, 0.7, (1200, 10))).astype("float32")
np.random.shuffle(x)  # WRONG
np.random.shuffle(y)  # WRONG
perm = np.random.permutation(len(x))  # RIGHT
x, y = x[perm], y[perm]  # RIGHT
x_train, x_val, x_test = x[:800], x[800:1000], x[1000:]
y_train, y_val, y_test = y[:800], y[800:1000], y[1000:]

model = keras.Sequential([
    layers.Input((10,)),
    layers.Dense(32, activation="relu"),
    layers.BatchNormalization(),
    layers.Dense(32, activation="relu"),
    layers.Dense(4, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(0.005), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, epochs=3, batch_size=16, validation_data=(x_val, y_val), verbose=2)
print("test", model.evaluate(x_test, y_test, verbose=0))
