# Co-training: two models see two views, in every round each hands its surest unlabelled samples to the other (sets of indices, random.sample pools); EarlyStopping made anew per round, last a joint fit on what both agree on.
import os
import random

import numpy as np
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(27)

n = 900
y = np.random.randint(0, 3, n)
view1 = (np.eye(3)[y] @ np.random.randn(3, 8) * 0.6 + np.random.randn(n, 8)).astype("float32")
view2 = (np.tanh(np.eye(3)[y] @ np.random.randn(3, 14) * 0.6 + np.random.randn(n, 14))).astype("float32")
views = [view1, view2]
test = np.arange(750, 900)
val = np.arange(660, 750)
labelled = [{i: int(y[i]) for i in range(60)} for _ in range(2)]
unlabelled = set(range(60, 660))


def net(dim):
    inp = keras.Input((dim,))
    h = keras.layers.Dense(24, activation="relu")(inp)
    h = keras.layers.Dropout(0.3)(h)
    m = keras.Model(inp, keras.layers.Dense(3, activation="softmax")(h))
    m.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return m


models = [net(8), net(14)]
history = [[], []]
stops, right, accs = [], [], []
for rnd in range(5):
    for k in (0, 1):
        ids = list(labelled[k])
        random.shuffle(ids)
        ds = (
            tf.data.Dataset.from_tensor_slices((views[k][ids], [labelled[k][i] for i in ids]))
            .shuffle(len(ids))
            .batch(20)
        )
        es = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)
        h = models[k].fit(ds, epochs=5, validation_data=(views[k][val], y[val]), callbacks=[es], verbose=0)
        history[k] += h.history["val_loss"]
        stops.append([rnd, k, len(h.epoch), es.best_epoch, es.best])
    pool = random.sample(sorted(unlabelled), min(200, len(unlabelled)))
    for k in (0, 1):
        p = models[k].predict(views[k][pool], verbose=0)
        sure = [pool[j] for j in np.argsort(-p.max(1))[:30]]
        guess = dict(zip(pool, p.argmax(1)))
        for i in sure:
            labelled[1 - k][i] = int(guess[i])
            unlabelled.discard(i)
        right.append(np.mean([guess[i] == y[i] for i in sure]))
    accs.append([m.evaluate(v[test], y[test], verbose=0)[1] for m, v in zip(models, views)])
    print(rnd, "labelled", [len(l) for l in labelled], "acc", accs[-1], "right", right[-2:])

common = sorted(i for i in labelled[0] if labelled[1].get(i) == labelled[0][i])
extra = [i for i in sorted(unlabelled)]
p = [m.predict(v[extra], verbose=0).argmax(1) for m, v in zip(models, views)]
common += [i for i, a, b in zip(extra, *p) if a == b]
target = np.array([labelled[0].get(i, -1) for i in common])
lookup = dict(zip(extra, p[0]))
target = np.array([lookup[i] if t < 0 else t for i, t in zip(common, target)])
joint = keras.Sequential([keras.layers.Input((22,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3, activation="softmax")])
joint.compile(keras.optimizers.RMSprop(5e-3), "sparse_categorical_crossentropy", metrics=["accuracy"])
both = np.concatenate(views, 1)
hj = joint.fit(both[common], target, epochs=5, batch_size=32, validation_data=(both[test], y[test]), verbose=0)

out = {"stops": np.array(stops), "right": np.array(right), "accs": np.array(accs), "common": np.array(common)}
out["unlabelled"] = np.array(sorted(unlabelled))
for k in (0, 1):
    out[f"history{k}"] = np.array(history[k])
    out[f"labelled{k}"] = np.array(list(labelled[k].items()))
for name, m in (("m0", models[0]), ("m1", models[1]), ("joint", joint)):
    out.update({f"{name}_v{i}": np.asarray(v) for i, v in enumerate(m.variables)})
    out.update({f"{name}_o{i}": np.asarray(v) for i, v in enumerate(m.optimizer.variables)})
out.update({f"joint_{k}": np.array(v) for k, v in hj.history.items()})
out["next"] = np.array([random.random(), np.random.rand()])
out["pred"] = joint.predict(both[test[:20]], verbose=0)
np.savez("result.npz", **out)
