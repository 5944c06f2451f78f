"""RandomBrightness expects pixels from 0 to 255 by default; on images already scaled to 0..1 it adds up to plus or minus 76 and destroys them."""

# finds: value-range

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)
y = rng.integers(0, 3, 900)
X = rng.integers(0, 60, (900, 20, 20, 3))
for i, k in enumerate(y):
    if k == 0:
        X[i, 4:16, 9:12] += 150
    elif k == 1:
        X[i, 9:12, 4:16] += 150
    else:
        X[i, 7:13, 7:13] += 150
X = X.astype("uint8")

inputs = keras.Input((20, 20, 3))
x = layers.Rescaling(1 / 255)(inputs)
x = layers.RandomTranslation(0.1, 0.1)(x)
x = layers.RandomBrightness(0.3)(x)  # WRONG
x = layers.RandomBrightness(0.3, value_range=(0, 1))(x)  # RIGHT
x = layers.Conv2D(16, 3, activation="relu")(x)
x = layers.MaxPooling2D()(x)
x = layers.Conv2D(32, 3, activation="relu")(x)
x = layers.Flatten()(x)
outputs = layers.Dense(3, activation="softmax")(x)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(X[:720], y[:720], validation_data=(X[720:], y[720:]), epochs=3, batch_size=16, verbose=2)
