# Infinite Python generator fed by the user's own background thread and queue (np.random.RandomState, itertools.cycle), steps_per_epoch, validation by a second generator that yields the whole validation set.
import itertools
import os
import queue
import random
import threading

import numpy as np
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(606)

N = 900
X = np.random.uniform(-1, 1, (N, 12, 12, 3)).astype("float32")
y = (X[..., 0].mean((1, 2)) + 0.5 * X[:, :6, :, 1].mean((1, 2)) - 0.5 * X[:, 6:, :, 2].mean((1, 2)) > 0).astype("float32")
tr = list(range(700))
va = list(range(700, N))


class Prefetcher:
    def __init__(self, make_batch, size=4):
        self.q = queue.Queue(maxsize=size)
        self.make_batch = make_batch
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self):
        while True:
            self.q.put(self.make_batch())

    def __iter__(self):
        return self

    def __next__(self):
        return self.q.get()


class BatchMaker:
    def __init__(self, batch_size):
        self.rs = np.random.RandomState(np.random.randint(1 << 30))
        self.order = list(tr)
        self.rs.shuffle(self.order)
        self.source = itertools.cycle(self.order)
        self.modes = itertools.cycle(["plain", "flip", "cutout", "mix"])
        self.batch_size = batch_size
        self.last = None

    def __call__(self):
        idx = [next(self.source) for _ in range(self.batch_size)]
        xb, yb = X[idx].copy(), y[idx].copy()
        mode = next(self.modes)
        if mode == "flip":
            xb = xb[:, :, ::-1]
        elif mode == "cutout":
            for img in xb:
                a, b = self.rs.randint(0, 8, 2)
                img[a : a + 4, b : b + 4] = 0
        elif mode == "mix" and self.last is not None:
            lam = self.rs.beta(0.4, 0.4)
            xb = lam * xb + (1 - lam) * self.last[0]
            yb = lam * yb + (1 - lam) * self.last[1]
        xb = (xb * self.rs.uniform(0.9, 1.1, (len(xb), 1, 1, 1))).astype("float32")
        yb = yb.astype("float32")
        self.last = (xb, yb)
        return xb, yb


random.shuffle(va)


def val_gen():
    while True:
        yield X[va], y[va]


model = keras.Sequential(
    [
        keras.layers.Input((12, 12, 3)),
        keras.layers.Conv2D(6, 3, activation="relu", strides=2),
        keras.layers.DepthwiseConv2D(3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["mae"])
h = model.fit(
    (batch for batch in Prefetcher(BatchMaker(25))),
    steps_per_epoch=28,
    epochs=11,
    validation_data=val_gen(),
    validation_steps=1,
    verbose=0,
)

res = {f"w{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({k: np.array(v) for k, v in h.history.items()})
res["pred"] = model.predict(X[700:720], verbose=0)
np.savez("result.npz", **res)
