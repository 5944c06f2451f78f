"""The images have the channels first (3, 24, 24) as in PyTorch, but Keras layers expect them last, so the convolution treats columns as channels; transpose."""

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(55)
rng = np.random.default_rng(55)
n = 700
cls = rng.integers(0, 4, n)
x = rng.normal(0, 0.55, size=(n, 3, 24, 24))
for k in range(n):
    r, c = rng.integers(0, 18, 2)
    channel = cls[k] // 2
    if cls[k] % 2:
        x[k, channel, r:r + 6, c:c + 2] += 1.5
    else:
        x[k, channel, r:r + 2, c:c + 6] += 1.5
x = x.astype("float32")
x = np.transpose(x, (0, 2, 3, 1))  # RIGHT

model = keras.Sequential()
model.add(keras.Input(shape=x.shape[1:]))
model.add(layers.Conv2D(32, 5, padding="same", activation="relu"))
model.add(layers.Conv2D(16, 3, padding="same", activation="relu"))
model.add(layers.GlobalMaxPooling2D())
model.add(layers.Dense(32, activation="relu"))
model.add(layers.Dense(4, activation="softmax"))
model.compile(optimizer=keras.optimizers.Adam(0.004), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x[:500], cls[:500], epochs=3, batch_size=10, validation_data=(x[500:600], cls[500:600]), verbose=2)
print("test", model.evaluate(x[600:], cls[600:], verbose=0))
