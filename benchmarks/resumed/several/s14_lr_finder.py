# Learning rate finder: a fit with a rate rising batch by batch, weights put back, then the real fit with the rate found.
import math
import os

import keras
import numpy as np

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(77)

x = np.random.randn(1000, 16)
w = np.random.randn(16, 3)
y = keras.utils.to_categorical(np.argmax(x @ w + np.random.gumbel(size=(1000, 3)), axis=1), 3)


class LRFinder(keras.callbacks.Callback):
    def __init__(self, min_lr=1e-5, max_lr=1.0, n_steps=100, beta=0.9):
        super().__init__()
        self.min_lr, self.max_lr, self.n_steps, self.beta = min_lr, max_lr, n_steps, beta
        self.step = 0
        self.avg = 0.0
        self.best = float("inf")
        self.lrs, self.losses = [], []

    def on_train_begin(self, logs=None):
        self.start_weights = self.model.get_weights()
        self.model.optimizer.learning_rate = self.min_lr

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        self.avg = self.beta * self.avg + (1 - self.beta) * logs["loss"]
        smooth = self.avg / (1 - self.beta ** self.step)
        self.lrs.append(float(self.model.optimizer.learning_rate))
        self.losses.append(smooth)
        if smooth < self.best:
            self.best = smooth
        if self.step > 10 and smooth > 4 * self.best or math.isnan(smooth):
            self.model.stop_training = True
            return
        self.model.optimizer.learning_rate = self.min_lr * (self.max_lr / self.min_lr) ** (self.step / self.n_steps)

    def on_train_end(self, logs=None):
        self.model.set_weights(self.start_weights)

    def suggest(self):
        grads = np.gradient(np.array(self.losses), np.log(np.array(self.lrs)))
        return self.lrs[int(np.argmin(grads[5:-5])) + 5]


def make_model():
    m = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dropout(0.1),
                          keras.layers.Dense(3, activation="softmax")])
    m.compile(keras.optimizers.SGD(0.01, momentum=0.9), "categorical_crossentropy", metrics=["accuracy"])
    return m


model = make_model()
finder = LRFinder(n_steps=100)
model.fit(x, y, batch_size=32, epochs=4, callbacks=[finder], verbose=0)
lr = finder.suggest()
print("found learning rate", lr)

model.compile(keras.optimizers.SGD(lr, momentum=0.9), "categorical_crossentropy", metrics=["accuracy"])
h = model.fit(x, y, batch_size=32, epochs=8, validation_split=0.2, verbose=2,
              callbacks=[keras.callbacks.LearningRateScheduler(lambda e, r: r * 0.9)])

d = {"lr": np.array(lr), "lrs": np.array(finder.lrs), "losses": np.array(finder.losses)}
d.update({f"start{i}": a for i, a in enumerate(finder.start_weights)})
d.update({f"var{i}": np.asarray(v) for i, v in enumerate(model.variables)})
d.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
d.update({"hist_" + k: np.array(v) for k, v in h.history.items()})
d["pred"] = model.predict(x[:10], verbose=0)
np.savez("result.npz", **d)
