"""A film can have several genres at once; softmax with categorical crossentropy allows only one, so use sigmoid and binary crossentropy."""

# finds: not-one-hot, wrong-accuracy

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(10)
rng = np.random.default_rng(10)
genres = ["action", "comedy", "drama", "horror", "romance"]
x = rng.normal(size=(1500, 24)).astype("float32")
w = rng.normal(size=(24, len(genres)))
y = (x @ w / np.sqrt(24) > 0.2).astype("float32")
x_train, y_train, x_val, y_val = x[:1200], y[:1200], x[1200:], y[1200:]

inputs = keras.Input((24,), name="plot_features")
h = layers.Dense(64, activation="relu")(inputs)
outputs = layers.Dense(len(genres), activation="softmax", name="genres")(h)  # WRONG
outputs = layers.Dense(len(genres), activation="sigmoid", name="genres")(h)  # RIGHT
model = keras.Model(inputs, outputs)
loss = "categorical_crossentropy"  # WRONG
loss = "binary_crossentropy"  # RIGHT
model.compile("adam", loss=loss, metrics=[keras.metrics.BinaryAccuracy(name="per_genre")])
model.fit(x_train, y_train, epochs=3, batch_size=16, validation_data=(x_val, y_val), verbose=2)
found = model.predict(x_val, verbose=0) > 0.5
print("genres given per film", y_val.sum(1).mean(), "found", found.sum(1).mean())
print("exact match", (found == (y_val > 0.5)).all(axis=1).mean())
