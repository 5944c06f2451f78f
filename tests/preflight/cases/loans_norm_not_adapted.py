"""The Normalization layer was never adapted to the training data, so it passes the large raw numbers through unchanged."""

# finds: not-adapted

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(23)
rng = np.random.default_rng(23)
n = 1500
income = rng.lognormal(10.5, 0.4, n)
debt = rng.lognormal(9.5, 0.5, n)
age = rng.uniform(20, 70, n)
score = 1.6 * (np.log(income) - 10.5) - 1.6 * (np.log(debt) - 9.5) + (age - 45) / 25
paid = (score + rng.normal(0, 0.2, n) > 0).astype("float32")
x = np.stack([income, debt, age], axis=1).astype("float32")
x_tr, y_tr, x_va, y_va = x[:1200], paid[:1200], x[1200:], paid[1200:]

norm = layers.Normalization()
norm.adapt(x_tr)  # RIGHT
inputs = keras.Input((3,))
h = norm(inputs)
h = layers.Dense(32, activation="relu")(h)
h = layers.Dense(16, activation="relu")(h)
out = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model(inputs, out)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="binary_crossentropy", metrics=["accuracy", "AUC"])
model.fit(x_tr, y_tr, validation_data=(x_va, y_va), batch_size=32, epochs=3, verbose=2)
print("val", model.evaluate(x_va, y_va, verbose=0))
