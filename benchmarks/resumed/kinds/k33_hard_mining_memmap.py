# Hard-example mining: per-sample losses in an np.memmap file, sample weights rewritten in place by a callback, a PyDataset that draws each epoch's indices from them.
import os

import numpy as np
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(33)

n = 900
X = np.random.gamma(2.0, 1.0, (n, 7)).astype("float32")
y = (np.log(X[:, 0] * X[:, 1]) + np.maximum(X[:, 2] - 3, 0) ** 2 + np.random.normal(0, 0.2, n)).astype("float32")

difficulty = np.memmap("difficulty.dat", dtype="float32", mode="w+", shape=(n,))
difficulty[:] = 1.0
weights = np.ones(n, "float32")
visits = np.zeros(n, "int64")


class Mined(keras.utils.PyDataset):
    def __init__(self, batch, steps, **kw):
        super().__init__(**kw)
        self.batch, self.steps = batch, steps
        self.gen = np.random.Generator(np.random.MT19937(np.random.randint(2**31)))
        self.draw()

    def draw(self):
        p = np.asarray(difficulty[:800], "float64") ** 0.7
        self.idx = self.gen.choice(800, self.batch * self.steps, p=p / p.sum())
        np.add.at(visits, self.idx, 1)

    def __len__(self):
        return self.steps

    def __getitem__(self, i):
        k = self.idx[i * self.batch : (i + 1) * self.batch]
        return X[k], y[k], weights[k]

    def on_epoch_begin(self):
        self.draw()


class Miner(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.rounds = 0
        self.hardest = []

    def on_epoch_end(self, epoch, logs=None):
        self.rounds += 1
        rng = np.random.choice(800, 300, replace=False)  # only a part is looked at every time
        err = np.abs(self.model.predict(X[rng], verbose=0)[:, 0] - y[rng])
        difficulty[rng] = 0.6 * difficulty[rng] + 0.4 * err
        difficulty.flush()
        # in place: unbias, and cap the outliers
        weights[:] = 1.0 / (np.asarray(difficulty) + 0.1)
        weights[difficulty > np.quantile(difficulty[:800], 0.99)] *= 0.3
        weights[:] /= weights.mean()
        self.hardest.append(np.argsort(-np.asarray(difficulty))[:5])


model = keras.Sequential(
    [keras.Input((7,)), keras.layers.Dense(40, "silu"), keras.layers.Dense(40, "silu"), keras.layers.Dense(1)]
)
model.compile(keras.optimizers.Lion(1e-3), "mae", weighted_metrics=["mse"])
data = Mined(25, 24)
miner = Miner()
h = model.fit(data, epochs=14, validation_data=(X[800:], y[800:]), callbacks=[miner], verbose=0)

back = np.fromfile("difficulty.dat", "float32")
np.savez(
    "result.npz",
    **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{f"hist_{k}": np.array(v) for k, v in h.history.items()},
    difficulty=back,
    weights=weights,
    visits=visits,
    hardest=np.array(miner.hardest),
    gen_next=data.gen.random(3),
    np_next=np.random.rand(2),
    pred=model.predict(X[800:812], verbose=0),
)
