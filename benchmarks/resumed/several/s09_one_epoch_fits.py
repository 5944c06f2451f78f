# A loop of one-epoch fits with evaluation in between (one model with initial_epoch, one without), best weights and rate decay kept by hand.
import os
import random

import keras
import numpy as np

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(64)

words = [[random.randint(1, 49) for _ in range(random.randint(5, 20))] for _ in range(480)]
labels = [1 if sum(w) % 7 < 3 or 13 in w else 0 for w in words]
x = keras.utils.pad_sequences(words, maxlen=20)
y = np.array(labels)
x_tr, y_tr, x_te, y_te = x[:400], y[:400], x[400:], y[400:]


def make(name):
    m = keras.Sequential([
        keras.Input((20,), dtype="int32"),
        keras.layers.Embedding(50, 8, mask_zero=True),
        keras.layers.GRU(12),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(1, activation="sigmoid"),
    ], name=name)
    m.compile(loss="binary_crossentropy", optimizer=keras.optimizers.Adam(0.01), metrics=["accuracy"])
    return m


model_a, model_b = make("a"), make("b")
best_acc, best_weights, bad = 0.0, None, 0
log_a, log_b, lrs = [], [], []

for epoch in range(8):
    ha = model_a.fit(x_tr, y_tr, batch_size=40, epochs=epoch + 1, initial_epoch=epoch, verbose=0)
    ev = model_a.evaluate(x_te, y_te, verbose=0)
    log_a.append([ha.history["loss"][0], ha.history["accuracy"][0], *ev])
    if ev[1] > best_acc:
        best_acc, best_weights, bad = ev[1], model_a.get_weights(), 0
    else:
        bad += 1
        if bad >= 2:
            lr = float(model_a.optimizer.learning_rate) * 0.5
            model_a.optimizer.learning_rate = lr
            bad = 0
    lrs.append(float(model_a.optimizer.learning_rate))
    print(f"a epoch {epoch + 1}: val acc {ev[1]:.3f} lr {lrs[-1]:.5f}")

    # second model: shuffled by hand, no initial_epoch
    order = list(range(len(x_tr)))
    random.shuffle(order)
    hb = model_b.fit(x_tr[order], y_tr[order], batch_size=40, epochs=1, shuffle=False, verbose=0)
    log_b.append([hb.history["loss"][0], *model_b.evaluate(x_te, y_te, verbose=0)])

if best_weights is not None:
    last_weights = model_a.get_weights()
    model_a.set_weights(best_weights)

out = {"log_a": np.array(log_a), "log_b": np.array(log_b), "lrs": np.array(lrs), "best_acc": np.array(best_acc)}
for i, w in enumerate(last_weights):
    out[f"a_last{i}"] = w
for m in (model_a, model_b):
    for i, v in enumerate(m.variables):
        out[f"{m.name}_var{i}"] = np.asarray(v)
    for i, v in enumerate(m.optimizer.variables):
        out[f"{m.name}_opt{i}"] = np.asarray(v)
    out[f"{m.name}_pred"] = m.predict(x_te[:15], verbose=0)
np.savez("result.npz", **out)
