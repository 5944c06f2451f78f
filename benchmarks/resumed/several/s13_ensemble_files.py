# Ensemble of models on bootstrap samples: every member is fitted, saved to models/, and the ensemble is read back from the files.
import glob
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2)

N_MEMBERS = 5
os.makedirs("models", exist_ok=True)

x = np.random.rand(500, 6).astype("float32")
y = (np.sin(6 * x[:, 0]) + x[:, 1] * x[:, 2] - x[:, 3] > 0.2).astype("int64")
x_train, y_train, x_test, y_test = x[:400], y[:400], x[400:], y[400:]


def fit_member(k, trainX, trainy, testX, testy):
    width = int(np.random.choice([16, 24, 32]))
    model = keras.Sequential([
        keras.layers.Input((6,)),
        keras.layers.Dense(width, activation="relu", kernel_initializer="he_uniform"),
        keras.layers.Dropout(0.15),
        keras.layers.Dense(2, activation="softmax"),
    ])
    model.compile(loss="sparse_categorical_crossentropy", optimizer=keras.optimizers.Adam(0.01), metrics=["accuracy"])
    mc = keras.callbacks.ModelCheckpoint(f"models/model_{k}_best.keras", monitor="val_accuracy", save_best_only=True)
    h = model.fit(trainX, trainy, validation_data=(testX, testy), epochs=8, batch_size=50, verbose=0, callbacks=[mc])
    _, acc = model.evaluate(testX, testy, verbose=0)
    return model, h, acc


hists, accs, idxs, opts = [], [], [], {}
for k in range(N_MEMBERS):
    ix = np.random.choice(len(x_train), len(x_train), replace=True)
    idxs.append(ix)
    model, h, acc = fit_member(k, x_train[ix], y_train[ix], x_test, y_test)
    filename = "models/model_%d.h5" % (k + 1)
    model.save(filename)
    print(">Saved %s, acc %.3f" % (filename, acc))
    hists.append(h.history)
    accs.append(acc)
    for i, v in enumerate(model.optimizer.variables):
        opts[f"opt_{k}_{i}"] = np.asarray(v)

members = [keras.models.load_model(f) for f in sorted(glob.glob("models/*.h5"))]
best = [keras.models.load_model(f) for f in sorted(glob.glob("models/*_best.keras"))]
print("loaded", len(members), len(best))
yhats = np.array([m.predict(x_test, verbose=0) for m in members])
ens = yhats.sum(axis=0).argmax(axis=1)
running = [np.mean(yhats[:i].sum(axis=0).argmax(axis=1) == y_test) for i in range(1, len(members) + 1)]
print("ensemble accuracy %.3f, single %.3f" % (np.mean(ens == y_test), np.mean(accs)))

out = {"accs": np.array(accs), "running": np.array(running), "yhats": yhats, "idx": np.array(idxs)}
out.update(opts)
for k, h in enumerate(hists):
    for name, v in h.items():
        out[f"h{k}_{name}"] = np.array(v)
for tag, ms in (("last", members), ("best", best)):
    for k, m in enumerate(ms):
        for i, w in enumerate(m.get_weights()):
            out[f"{tag}{k}_{i}"] = w
np.savez("result.npz", **out)
