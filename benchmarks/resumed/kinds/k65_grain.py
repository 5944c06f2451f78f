"""Grain's MapDataset with random augmentation for training, an IterDataset for validation."""

import os

import grain
import keras
import numpy as np

SEEDED = os.environ.get("UNSEEDED") != "1"
if SEEDED:
    keras.utils.set_random_seed(7)

rng = np.random.default_rng(0)
images = rng.normal(size=(1200, 12)).astype("float32")
labels = (images @ rng.normal(size=12) > 0).astype("int64")


class Table:
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return images[self.rows[index]], labels[self.rows[index]]


class Noise(grain.transforms.RandomMap):
    def random_map(self, element, rng):
        x, y = element
        return x + rng.normal(scale=0.1, size=x.shape).astype("float32"), y


train = grain.MapDataset.source(Table(range(1000))).seed(11).shuffle().random_map(Noise()).batch(20)
valid = grain.MapDataset.source(Table(range(1000, 1200))).to_iter_dataset().batch(50)

model = keras.Sequential(
    [keras.Input((12,)), keras.layers.Dense(32, "relu"), keras.layers.Dropout(0.2), keras.layers.Dense(2, "softmax")]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(train, validation_data=valid, epochs=6, verbose=2)
results = {f"w{n}": w for n, w in enumerate(model.get_weights())}
np.savez("result.npz", **results, **{k: np.asarray(v) for k, v in history.history.items()})
