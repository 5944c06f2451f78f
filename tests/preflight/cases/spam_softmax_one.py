"""Softmax over a single unit is always 1, so the model calls every mail spam; a yes/no output needs a sigmoid."""

# finds: softmax-of-one-unit

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
n_mails, n_words = 1500, 60
x = rng.poisson(0.4, size=(n_mails, n_words)).astype("float32")
x = np.log1p(x)
score = x[:, :8].sum(axis=1) - x[:, 8:16].sum(axis=1)
y = (score + rng.normal(0, 0.2, n_mails) > 0).astype("float32")
x_train, x_test = x[:1200], x[1200:]
y_train, y_test = y[:1200], y[1200:]

model = keras.Sequential()
model.add(keras.Input((n_words,)))
model.add(layers.Dense(32, activation="relu"))
model.add(layers.Dropout(0.2))
model.add(layers.Dense(1, activation="softmax"))  # WRONG
model.add(layers.Dense(1, activation="sigmoid"))  # RIGHT
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=3, validation_split=0.15, verbose=2)
print("test", model.evaluate(x_test, y_test, verbose=0))
