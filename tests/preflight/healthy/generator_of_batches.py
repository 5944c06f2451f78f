"""An endless Python generator with steps_per_epoch, and a PyDataset for validation."""

import keras
import numpy as np


def batches(rng):
    while True:
        x = rng.normal(size=(32, 10)).astype("float32")
        yield x, (x.sum(axis=1) > 0).astype("float32")


class Held(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return next(batches(np.random.default_rng(100 + index)))


model = keras.Sequential(
    [keras.Input((10,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(batches(np.random.default_rng(0)), steps_per_epoch=20, epochs=3, validation_data=Held())
