# Image classifier fed by a keras.utils.Sequence that mixes batches by mixup or cutmix (np.random.beta, random.random), shuffles its indexes in on_epoch_end and switches the mixing off for the last epochs.
import math
import os
import random

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(4343)

NUM_CLASSES, SIZE = 4, 12
EPOCHS = 10


def make_images(n):
    y = np.random.randint(0, NUM_CLASSES, n)
    x = np.random.uniform(0, 0.6, (n, SIZE, SIZE, 1))
    for i, c in enumerate(y):
        k = np.random.randint(2, SIZE - 2)
        if c == 0:
            x[i, k, :] += 0.7
        elif c == 1:
            x[i, :, k] += 0.7
        elif c == 2:
            x[i, range(SIZE), range(SIZE)] += 0.7
        else:
            x[i, range(SIZE), range(SIZE - 1, -1, -1)] += 0.7
    return x.astype("float32"), keras.utils.to_categorical(y, NUM_CLASSES)


x_train, y_train = make_images(700)
x_val, y_val = make_images(160)


class MixGenerator(keras.utils.Sequence):
    def __init__(self, x, y, batch_size=32, alpha=0.4, p_cutmix=0.5):
        super().__init__()
        self.x, self.y = x, y
        self.batch_size = batch_size
        self.alpha = alpha
        self.p_cutmix = p_cutmix
        self.indexes = np.arange(len(x))
        self.epoch = 0
        self.counts = {"mixup": 0, "cutmix": 0, "plain": 0}
        np.random.shuffle(self.indexes)

    def __len__(self):
        return math.ceil(len(self.x) / self.batch_size)

    def __getitem__(self, index):
        ids = self.indexes[index * self.batch_size : (index + 1) * self.batch_size]
        x, y = self.x[ids].copy(), self.y[ids].copy()
        if self.epoch >= EPOCHS - 2:
            self.counts["plain"] += 1
            return x, y
        other = np.random.permutation(len(ids))
        if random.random() < self.p_cutmix:
            self.counts["cutmix"] += 1
            lam = np.random.beta(1.0, 1.0)
            cut = int(SIZE * math.sqrt(1 - lam))
            r, c = random.randint(0, SIZE - 1), random.randint(0, SIZE - 1)
            r0, r1 = max(0, r - cut // 2), min(SIZE, r + cut // 2)
            c0, c1 = max(0, c - cut // 2), min(SIZE, c + cut // 2)
            x[:, r0:r1, c0:c1] = x[other, r0:r1, c0:c1]
            lam = 1 - (r1 - r0) * (c1 - c0) / SIZE**2
            y = lam * y + (1 - lam) * y[other]
        else:
            self.counts["mixup"] += 1
            lam = np.random.beta(self.alpha, self.alpha, size=len(ids)).astype("float32")
            x = x * lam[:, None, None, None] + x[other] * (1 - lam)[:, None, None, None]
            y = y * lam[:, None] + y[other] * (1 - lam)[:, None]
        return x.astype("float32"), y.astype("float32")

    def on_epoch_end(self):
        self.epoch += 1
        np.random.shuffle(self.indexes)


model = keras.Sequential(
    [
        layers.Input((SIZE, SIZE, 1)),
        layers.Conv2D(12, 3, activation="relu"),
        layers.SpatialDropout2D(0.1),
        layers.AveragePooling2D(2),
        layers.Conv2D(16, 3, activation="relu"),
        layers.Flatten(),
        layers.Dense(32, activation="relu"),
        layers.Dense(NUM_CLASSES, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Nadam(3e-3),
    loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.05),
    metrics=["accuracy"],
)
gen = MixGenerator(x_train, y_train)
hist = model.fit(gen, epochs=EPOCHS, validation_data=(x_val, y_val), verbose=2)

res = {}
for i, v in enumerate(model.variables):
    res[f"w{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    res[f"o{i}"] = np.asarray(v)
for k, v in hist.history.items():
    res["h_" + k] = np.array(v)
res["counts"] = np.array([gen.counts[k] for k in sorted(gen.counts)])
res["indexes"] = gen.indexes
res["next"] = np.array([random.random(), np.random.rand()])
res["pred"] = model.predict(x_val[:20], verbose=0)
np.savez("result.npz", **res)
