"""Healthy: a base trained on one task, then frozen under a new head (training=False), then unfrozen and recompiled with a small rate."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(109)
rng = np.random.default_rng(109)


def data(n, horizontal):
    y = rng.integers(0, 3, n)
    x = rng.normal(0.3, 0.1, (n, 18, 18, 1))
    for i, k in enumerate(y):
        s = 6 * k + rng.integers(0, 3)
        if horizontal:
            x[i, s:s + 3] += 0.5
        else:
            x[i, :, s:s + 3] += 0.5
    return np.clip(x, 0, 1).astype("float32"), y


inputs = keras.Input((18, 18, 1))
h = inputs
for f in (16, 32):
    h = layers.Conv2D(f, 3, strides=2, padding="same", use_bias=False)(h)
    h = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(h))
base = keras.Model(inputs, h, name="base")
pre = keras.Sequential([base, layers.Flatten(), layers.Dense(3, activation="softmax")])
pre.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
xa, ya = data(900, True)
pre.fit(xa, ya, epochs=2, validation_split=0.2, verbose=2)

base.trainable = False
x = keras.Input((18, 18, 1))
out = layers.Dense(3, activation="softmax")(layers.Flatten()(base(x, training=False)))
model = keras.Model(x, out)
xb, yb = data(500, False)
val = data(150, False)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(xb, yb, validation_data=val, epochs=2, batch_size=16, verbose=2)
base.trainable = True
model.compile(optimizer=keras.optimizers.Adam(1e-4), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(xb, yb, validation_data=val, epochs=2, batch_size=16, verbose=2)
