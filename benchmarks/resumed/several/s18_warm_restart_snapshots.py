# Warm restart cycles with a cosine rate: one fit per cycle, a snapshot of the weights is saved at every cycle's end, snapshots are averaged and ensembled.
import math
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(555)

CYCLES, EPOCHS_PER_CYCLE, BATCH = 4, 3, 32
x = np.random.normal(size=(480, 2)).astype("float32")
r = np.sqrt((x ** 2).sum(1))
y = (np.sin(3 * r) > 0).astype("int32")
x_tr, y_tr, x_te, y_te = x[:384], y[:384], x[384:], y[384:]
steps = math.ceil(len(x_tr) / BATCH) * EPOCHS_PER_CYCLE


class CosineCycle(keras.callbacks.Callback):
    def __init__(self, max_lr, total):
        super().__init__()
        self.max_lr, self.total = max_lr, total
        self.i = 0
        self.lrs = []

    def on_train_begin(self, logs=None):
        self.i = 0

    def on_train_batch_begin(self, batch, logs=None):
        lr = self.max_lr / 2 * (math.cos(math.pi * self.i / self.total) + 1)
        self.model.optimizer.learning_rate.assign(lr)
        self.lrs.append(lr)
        self.i += 1


model = keras.Sequential([
    keras.layers.Input((2,)),
    keras.layers.Dense(40, activation="relu"),
    keras.layers.Dense(40, activation="relu"),
    keras.layers.Dropout(0.05),
    keras.layers.Dense(2, activation="softmax"),
])
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])

schedule = CosineCycle(0.1, steps)
history = {}
for cycle in range(CYCLES):
    h = model.fit(x_tr, y_tr, validation_data=(x_te, y_te), batch_size=BATCH, verbose=0, callbacks=[schedule],
                  initial_epoch=cycle * EPOCHS_PER_CYCLE, epochs=(cycle + 1) * EPOCHS_PER_CYCLE)
    for k, v in h.history.items():
        history.setdefault(k, []).extend(v)
    model.save_weights(f"snapshot_{cycle}.weights.h5")
    print(f"cycle {cycle}: val acc {h.history['val_accuracy'][-1]:.3f}")
    schedule.max_lr *= 0.8

# SWA-like average and ensemble from the files
preds, total = [], None
eval_model = keras.models.clone_model(model)
for cycle in range(CYCLES):
    eval_model.load_weights(f"snapshot_{cycle}.weights.h5")
    preds.append(eval_model.predict(x_te, verbose=0))
    ws = eval_model.get_weights()
    total = ws if total is None else [a + b for a, b in zip(total, ws)]
eval_model.set_weights([a / CYCLES for a in total])
swa_pred = eval_model.predict(x_te, verbose=0)
print("ensemble acc", np.mean(np.mean(preds[1:], axis=0).argmax(1) == y_te), "swa acc", np.mean(swa_pred.argmax(1) == y_te))

res = {"lrs": np.array(schedule.lrs), "preds": np.array(preds), "swa_pred": swa_pred}
res.update({"h_" + k: np.array(v) for k, v in history.items()})
res.update({f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)})
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"swa{i}": w for i, w in enumerate(eval_model.get_weights())})
np.savez("result.npz", **res)
