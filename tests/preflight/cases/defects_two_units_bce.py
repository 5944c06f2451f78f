"""Two softmax units with integer labels need sparse_categorical_crossentropy; binary_crossentropy expects one unit (or one-hot labels)."""

# finds: target-shape, binary-loss-on-softmax

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(5)
rng = np.random.default_rng(5)
n = 800
pics = rng.uniform(90, 160, size=(n, 20, 20, 1)).astype("float32")
has_defect = rng.integers(0, 2, n)
for k in np.flatnonzero(has_defect):
    r, c = rng.integers(0, 15, 2)
    pics[k, r:r + 5, c:c + 5] = 255

inp = keras.Input((20, 20, 1))
z = layers.Rescaling(1 / 255.)(inp)
z = layers.Conv2D(8, 5, activation="relu")(z)
z = layers.GlobalMaxPooling2D()(z)
z = layers.Dense(16, activation="relu")(z)
out = layers.Dense(2, activation="softmax")(z)
model = keras.Model(inp, out)
opt = keras.optimizers.Adam(learning_rate=0.005)
model.compile(optimizer=opt, loss="binary_crossentropy", metrics=["accuracy"])  # WRONG
model.compile(optimizer=opt, loss="sparse_categorical_crossentropy", metrics=["accuracy"])  # RIGHT
model.fit(pics[:600], has_defect[:600], epochs=3, batch_size=20,
          validation_data=(pics[600:700], has_defect[600:700]), verbose=2)
print("test", model.evaluate(pics[700:], has_defect[700:], verbose=0))
