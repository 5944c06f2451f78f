"""The generator never moves its position forward, so every step gets the same first batch and the rest of the data is never seen."""

# finds: same-batches

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(59)
rng = np.random.default_rng(59)
x_all = rng.normal(size=(1200, 40)).astype("float32")
y_all = (x_all[:, :5].sum(axis=1) + 0.2 * rng.normal(size=1200) > 0).astype("float32")[:, None]
x_train, y_train = x_all[:960], y_all[:960]
x_val, y_val = x_all[960:], y_all[960:]

def batches(x, y, batch_size):
    start = 0
    order = np.random.permutation(len(x))
    while True:
        rows = order[start:start + batch_size]
        yield x[rows], y[rows]
        start += batch_size  # RIGHT
        if start >= len(x):
            start = 0
            order = np.random.permutation(len(x))


model = keras.Sequential([
    keras.Input((40,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.003), metrics=["accuracy"])
model.fit(batches(x_train, y_train, 24), steps_per_epoch=960 // 24, epochs=3, validation_data=(x_val, y_val), verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0))
