"""__len__ of the PyDataset gives the number of samples instead of the number of batches, so most batches are empty slices past the end."""

# finds: empty-batches

import math
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(8)
rng = np.random.default_rng(8)
X = rng.normal(size=(600, 12)).astype("float32")
y = (X[:, :3].sum(axis=1) > 0).astype("int32")

class Batches(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size, shuffle=False, **kwargs):
        super().__init__(**kwargs)
        self.x, self.y, self.batch_size, self.shuffle = x, y, batch_size, shuffle
        self.order = np.arange(len(x))
        self.on_epoch_end()

    def __len__(self):
        return len(self.x)  # WRONG
        return math.ceil(len(self.x) / self.batch_size)  # RIGHT

    def __getitem__(self, i):
        rows = self.order[i * self.batch_size:(i + 1) * self.batch_size]
        return self.x[rows], self.y[rows]

    def on_epoch_end(self):
        if self.shuffle:
            np.random.shuffle(self.order)


model = keras.Sequential([
    keras.Input((12,)),
    layers.Dense(32, activation="relu"),
    layers.Dense(2),
])
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.fit(Batches(X[:500], y[:500], 16, shuffle=True), validation_data=Batches(X[500:], y[500:], 16), epochs=3, verbose=2)
