# Cyclical learning rate (triangular2) by a per-batch callback that keeps iteration counters and a history dict, class_weight, validation_freq=3, initial_epoch=2 and CSVLogger(append=True).
import csv
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(49)


class CyclicLR(keras.callbacks.Callback):
    def __init__(self, base_lr=1e-3, max_lr=0.1, step_size=40, gamma=0.9995):
        super().__init__()
        self.base_lr, self.max_lr, self.step_size, self.gamma = base_lr, max_lr, step_size, gamma
        self.iteration = 0
        self.history = {}

    def clr(self):
        cycle = np.floor(1 + self.iteration / (2 * self.step_size))
        x = np.abs(self.iteration / self.step_size - 2 * cycle + 1)
        amplitude = (self.max_lr - self.base_lr) * max(0.0, 1 - x) / 2 ** (cycle - 1)
        return self.base_lr + amplitude * self.gamma**self.iteration

    def on_train_begin(self, logs=None):
        self.model.optimizer.learning_rate = self.base_lr if self.iteration == 0 else self.clr()

    def on_train_batch_end(self, batch, logs=None):
        self.iteration += 1
        self.history.setdefault("lr", []).append(float(self.model.optimizer.learning_rate))
        self.history.setdefault("iterations", []).append(self.iteration)
        for k, v in logs.items():
            self.history.setdefault(k, []).append(v)
        self.model.optimizer.learning_rate = self.clr()


n = 1000
x = np.random.uniform(-1, 1, (n, 6)).astype("float32")
score = x[:, 0] * x[:, 1] + x[:, 2] ** 2 - x[:, 3] * np.abs(x[:, 4])
y = (score + np.random.normal(0, 0.15, n) > 0.7).astype("int32")
print("positives:", y.mean())
neg, pos = np.bincount(y)

model = keras.Sequential(
    [
        layers.Input((6,)),
        layers.Dense(32, activation="relu", kernel_regularizer="l2"),
        layers.BatchNormalization(momentum=0.9),
        layers.Dense(32, activation="relu"),
        layers.Dropout(0.1),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(1e-3, momentum=0.9, nesterov=True),
    loss="binary_crossentropy",
    metrics=["accuracy", keras.metrics.AUC(name="auc"), keras.metrics.Recall(name="recall")],
)

clr = CyclicLR()
hist = model.fit(
    x[:800],
    y[:800],
    batch_size=32,
    initial_epoch=2,
    epochs=18,
    class_weight={0: n / (2.0 * neg), 1: n / (2.0 * pos)},
    validation_data=(x[800:], y[800:]),
    validation_freq=3,
    callbacks=[clr, keras.callbacks.CSVLogger("log.csv", append=True)],
    verbose=2,
)

with open("log.csv") as f:
    table = [[float("nan") if c == "NA" else float(c) for c in row] for row in list(csv.reader(f))[1:]]
np.savez(
    "result.npz",
    table=np.array(table),
    epoch=np.array(hist.epoch),
    pred=model.predict(x[800:820], verbose=0),
    **{f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{f"hist_{k}": np.array(v) for k, v in hist.history.items()},
    **{f"clr_{k}": np.array(v, "float64") for k, v in clr.history.items()},
)
