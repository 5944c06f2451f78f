# Learning-rate finder (a first fit with exponential LR, stopped by its own rule, weights restored from a file), then one-cycle training with cyclic momentum, chosen LR kept only in Python.
import math
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(15)

seq_len, vocab = 20, 30
N = 1000
tokens = np.random.randint(1, vocab, (N, seq_len))
target = ((tokens == 3).sum(1) + (tokens == 4).sum(1) > (tokens == 7).sum(1) + 0.6).astype("float32")
flip = np.random.random(N) < 0.05
target[flip] = 1 - target[flip]


class LRFinder(keras.callbacks.Callback):
    def __init__(self, lo=1e-4, hi=3.0, steps=90, beta=0.95):
        super().__init__()
        self.lo, self.hi, self.steps, self.beta = lo, hi, steps, beta
        self.i, self.avg, self.best = 0, 0.0, 1e9
        self.lrs, self.losses = [], []

    def on_train_begin(self, logs=None):
        self.model.save_weights("before_finder.weights.h5")
        self.prev_avg_loss = 0.0
        self.set_lr()

    def set_lr(self):
        self.lr = self.lo * (self.hi / self.lo) ** (self.i / self.steps)
        self.model.optimizer.learning_rate = self.lr

    def on_train_batch_end(self, batch, logs=None):
        # keras reports the running mean of the epoch: undo it
        loss = logs["loss"] * (batch + 1) - self.prev_avg_loss * batch
        self.prev_avg_loss = logs["loss"]
        self.i += 1
        self.avg = self.beta * self.avg + (1 - self.beta) * loss
        smooth = self.avg / (1 - self.beta**self.i)
        self.lrs.append(self.lr)
        self.losses.append(smooth)
        self.best = min(self.best, smooth)
        if self.i >= self.steps or (self.i > 10 and smooth > 1.6 * self.best):
            self.model.stop_training = True
            return
        self.set_lr()

    def on_epoch_end(self, epoch, logs=None):
        self.prev_avg_loss = 0.0

    def on_train_end(self, logs=None):
        self.model.load_weights("before_finder.weights.h5")

    def suggestion(self):
        g = np.gradient(np.array(self.losses[5:-3]), np.log(self.lrs[5:-3]))
        return self.lrs[5 + int(np.argmin(g))]


class OneCycle(keras.callbacks.Callback):
    def __init__(self, max_lr, total):
        super().__init__()
        self.max_lr, self.total = max_lr, total
        self.t = 0
        self.seen = {"lr": [], "mom": []}

    def on_train_batch_begin(self, batch, logs=None):
        p = self.t / self.total
        if p < 0.3:
            f = 0.5 - 0.5 * math.cos(math.pi * p / 0.3)
        else:
            f = 0.5 + 0.5 * math.cos(math.pi * (p - 0.3) / 0.7)
        self.model.optimizer.learning_rate.assign(self.max_lr * (0.04 + 0.96 * f))
        self.seen["lr"].append(float(self.model.optimizer.learning_rate))
        self.seen["mom"].append(0.95 - 0.1 * f)
        self.t += 1

    def on_train_batch_end(self, batch, logs=None):
        # momentum is baked into the graph, so scale the velocity by hand
        for m in self.model.optimizer.momentums:
            m.assign(m * (self.seen["mom"][-1] / 0.95))


def build():
    m = keras.Sequential(
        [
            layers.Input((seq_len,)),
            layers.Embedding(vocab, 8),
            layers.Conv1D(16, 1, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    return m


model = build()
model.compile(keras.optimizers.SGD(0.01), "binary_crossentropy")
finder = LRFinder()
h0 = model.fit(tokens[:800], target[:800], batch_size=32, epochs=10, callbacks=[finder], verbose=0)
best_lr = finder.suggestion()

model.compile(keras.optimizers.SGD(best_lr, momentum=0.95), "binary_crossentropy", metrics=["accuracy"])
EPOCHS = 12
cycle = OneCycle(best_lr * 0.3, EPOCHS * 25)
h1 = model.fit(
    tokens[:800], target[:800], batch_size=32, epochs=EPOCHS, callbacks=[cycle],
    validation_data=(tokens[800:], target[800:]), verbose=0,
)

res = {"w%d" % i: w for i, w in enumerate(model.get_weights())}
res.update({"o%d" % i: np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({"h0_" + k: np.array(v) for k, v in h0.history.items()})
res.update({"h1_" + k: np.array(v) for k, v in h1.history.items()})
res["finder"] = np.array([finder.lrs, finder.losses])
res["best_lr"] = np.array(best_lr)
res["cycle"] = np.array([cycle.seen["lr"], cycle.seen["mom"]])
res["pred"] = model.predict(tokens[-20:], verbose=0)
np.savez("result.npz", **res)
