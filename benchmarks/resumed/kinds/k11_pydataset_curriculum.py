# PyDataset with its own random.Random, counters and a growing batch size; a callback feeds its running losses back into the data set (curriculum), validation_freq=2.
import os
import random
from collections import deque

import numpy as np
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(42)

L = 16


class Additions(keras.utils.PyDataset):
    """Add two numbers given as bits; the numbers get longer when the model is good enough."""

    def __init__(self, batches, **kw):
        super().__init__(**kw)
        self.batches = batches
        self.batch_size = 24
        self.max_bits = 2
        self.rng = random.Random(np.random.randint(10**6))
        self.items_made = 0
        self.per_bits = {}
        self.epoch_ends = 0

    @property
    def num_batches(self):
        return self.batches

    def sample(self):
        bits = self.rng.randint(max(1, self.max_bits - 2), self.max_bits)
        a, b = self.rng.getrandbits(bits), self.rng.getrandbits(bits)
        self.per_bits[bits] = self.per_bits.get(bits, 0) + 1
        self.items_made += 1
        to_bits = lambda v, n: [(v >> i) & 1 for i in range(n)]
        return list(zip(to_bits(a, L), to_bits(b, L))), to_bits(a + b, L)

    def __getitem__(self, i):
        xs, ys = zip(*[self.sample() for _ in range(self.batch_size)])
        return np.array(xs, "float32"), np.array(ys, "float32")[..., None]

    def on_epoch_end(self):
        self.epoch_ends += 1


class Curriculum(keras.callbacks.Callback):
    def __init__(self, data):
        super().__init__()
        self.data = data
        self.window = deque(maxlen=15)
        self.log = []

    def on_train_batch_end(self, batch, logs=None):
        self.window.append(logs["loss"])

    def on_epoch_end(self, epoch, logs=None):
        mean = sum(self.window) / len(self.window)
        if mean < 0.45 and self.data.max_bits < 14:
            self.data.max_bits += 1
            self.data.batch_size += 4
            self.window.clear()
            self.window.append(mean)
        elif self.data.rng.random() < 0.3:
            self.data.batch_size += 1
        self.log.append((mean, self.data.max_bits, self.data.batch_size))


data = Additions(14)
r = random.Random(1)
va = [(r.getrandbits(6), r.getrandbits(6)) for _ in range(100)]
xv = np.array([[((a >> i) & 1, (b >> i) & 1) for i in range(L)] for a, b in va], "float32")
yv = np.array([[[((a + b) >> i) & 1] for i in range(L)] for a, b in va], "float32")

model = keras.Sequential(
    [keras.Input((L, 2)), keras.layers.GRU(24, return_sequences=True), keras.layers.Dense(1, activation="sigmoid")]
)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["binary_accuracy"])
cur = Curriculum(data)
hist = model.fit(data, epochs=14, validation_data=(xv, yv), validation_freq=2, callbacks=[cur], verbose=0)

res = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
for k, v in hist.history.items():
    res[k] = np.array(v)
res["curriculum"] = np.array(cur.log)
res["window"] = np.array(cur.window)
res["per_bits"] = np.array(sorted(data.per_bits.items()))
res["counters"] = np.array([data.items_made, data.max_bits, data.batch_size])
res["pred"] = model.predict(xv[:8], verbose=0)
np.savez("result.npz", **res)
