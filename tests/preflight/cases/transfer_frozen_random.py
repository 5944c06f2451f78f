"""The base was never given pretrained weights and is frozen, so the head sits on random features; load weights or let the base train."""

# finds: frozen-at-random

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(56)
rng = np.random.default_rng(56)
n = 800
label = rng.integers(0, 3, n)
photos = rng.uniform(60, 190, size=(n, 32, 32, 3))
for k in range(n):
    r, c = rng.integers(0, 22, 2)
    patch = photos[k, r:r + 10, c:c + 10]
    if label[k] == 0:
        patch[::2] += 65
    elif label[k] == 1:
        patch[:, ::2] += 65
    else:
        patch += 33
photos = np.clip(photos, 0, 255).astype("float32")

def backbone(weights=None):
    inputs = keras.Input((32, 32, 3))
    h = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    for width in (16, 24):
        h = layers.Conv2D(width, 3, activation="relu")(h)
    outputs = layers.GlobalMaxPooling2D()(h)
    net = keras.Model(inputs, outputs, name="backbone")
    if weights:
        net.load_weights(weights)
    return net


base = backbone(weights=None)
base.trainable = False  # WRONG
base.trainable = True  # RIGHT
model = keras.Sequential([base, layers.Dropout(0.1), layers.Dense(3, activation="softmax")])
model.compile(optimizer=keras.optimizers.Adam(0.004), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(photos[:640], label[:640], epochs=3, batch_size=16, validation_data=(photos[640:720], label[640:720]), verbose=2)
print("test", model.evaluate(photos[720:], label[720:], verbose=0))
