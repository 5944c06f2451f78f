# Small CNN with BatchNorm, Dropout and random-augmentation layers inside the model, ReduceLROnPlateau and EarlyStopping(restore_best_weights=True).
import os
import random

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(7)

# stripes of three directions in noise
def make(n):
    xs, ys = [], []
    for _ in range(n):
        c = random.randrange(3)
        img = np.random.normal(0, 1.3, (14, 14, 1))
        p = random.randrange(3)
        if c == 0:
            img[p::3] += 1.0
        elif c == 1:
            img[:, p::3] += 1.0
        else:
            for i in range(14):
                img[i, (i + p) % 3 :: 3] += 1.0
        xs.append(img)
        ys.append(c)
    return np.array(xs, "float32"), np.array(ys)


x_train, y_train = make(640)
x_val, y_val = make(256)
flip = np.random.rand(len(y_train)) < 0.15  # label noise
y_train[flip] = np.random.randint(0, 3, flip.sum())

inp = keras.Input((14, 14, 1))
x = layers.RandomTranslation(0.1, 0.1, fill_mode="constant")(inp)
x = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
x = layers.BatchNormalization(momentum=0.9)(x)
x = layers.ReLU()(x)
x = layers.MaxPooling2D()(x)
x = layers.SpatialDropout2D(0.1)(x)
x = layers.Conv2D(16, 3, padding="same", use_bias=False)(x)
x = layers.BatchNormalization(momentum=0.9)(x)
x = layers.ReLU()(x)
x = layers.GlobalAveragePooling2D()(x)
x = layers.Dropout(0.4)(x)
out = layers.Dense(3)(x)
model = keras.Model(inp, out)

model.compile(
    optimizer=keras.optimizers.Adam(0.02),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
es = keras.callbacks.EarlyStopping(monitor="val_loss", patience=6, restore_best_weights=True)
rlr = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, cooldown=1, min_delta=0.02)
h = model.fit(
    x_train, y_train, epochs=25, batch_size=32, validation_data=(x_val, y_val), callbacks=[rlr, es], verbose=0
)

res = {}
for i, v in enumerate(model.variables):
    res[f"model_{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    res[f"optimizer_{i}"] = np.asarray(v)
for name, values in h.history.items():
    res["history_" + name] = np.array(values)
res["es"] = np.array([es.stopped_epoch, es.best_epoch, es.best, es.wait])
res["rlr"] = np.array([rlr.best, rlr.wait, rlr.cooldown_counter])
res["predictions"] = model.predict(x_val[:16], verbose=0)
np.savez("result.npz", **res)
