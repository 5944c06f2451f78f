"""Objects that are hard to inspect, everywhere oomph looks: `difficult.py OUT.npz`."""

import sys
import time

import keras
import numpy as np

asked = []
keras.utils.set_random_seed(10)
x = np.random.default_rng(0).normal(size=(160, 6)).astype("float32")


class Raises:
    """Refuses every query."""

    def __getattr__(self, name):
        raise RuntimeError(f"nobody asks me for {name}")

    def __eq__(self, other):
        raise RuntimeError("nobody compares me")

    __hash__ = None

    def __repr__(self):
        raise RuntimeError("nobody prints me")


class Slow:
    """Computes for a minute when queried."""

    @property
    def answer(self):
        asked.append("answer")
        time.sleep(60)
        return 42


class Lies(dict):
    def __iter__(self):
        asked.append("iter")
        time.sleep(60)
        return super().__iter__()

    def items(self):
        raise RuntimeError("there are none")


class Difficult(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.raises, self.slow, self.lies = Raises(), Slow(), Lies(a=1)
        self.circle = [1, 2]
        self.circle.append({"again": self.circle, "self": self})
        self.huge = np.broadcast_to(np.float32(1), (50_000, 50_000))  # 10 GB, if it really existed
        self.lazy = np.zeros(1 << 30, np.uint8)[: 1 << 29]
        self.of_the_fit = self.later = None
        self.deep = None
        for _ in range(100_000):
            self.deep = [self.deep]
        self.many = list(range(300_000))
        self.endless = iter(int, 1)
        self.count = 0

    @property
    def expensive(self):
        asked.append("expensive")
        time.sleep(60)

    def on_train_begin(self, logs=None):
        self.of_the_fit = self.model

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        self.count += 1
        self.later = (batch for batch in range(self.count))

    def on_epoch_end(self, epoch, logs=None):
        """A fit inside the fit."""
        if self.inner is not None:
            self.inner.fit(x[:32], x[:32, :1], verbose=0)

    inner = None


class Layer(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.raises, self.slow = Raises(), Slow()

    def call(self, inputs):
        return inputs


def new_model():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4), Layer(), keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    return model


def stream():
    rng = np.random.default_rng(11)
    while True:
        rows = rng.integers(0, 160, 16)
        yield x[rows], x[rows, :1]


shared = Difficult()
shared.inner = new_model()
first, second, third = new_model(), new_model(), new_model()
began = time.process_time()
# Two fits on one line, sharing one callback.
one, two = (m.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0, callbacks=[shared]) for m in (first, second))
three = third.fit(stream(), steps_per_epoch=10, epochs=4, verbose=0, callbacks=[shared])
out = {f"loss{n}": history.history["loss"] for n, history in enumerate((one, two, three))}
weights = [*first.variables, *second.variables, *third.variables, *shared.inner.variables]
np.savez(sys.argv[1], count=shared.count, **out, **{f"v{i}": np.asarray(v) for i, v in enumerate(weights)})
print(time.process_time() - began, *asked)
