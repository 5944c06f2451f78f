# Curriculum training in several fits whose histories are merged, written to JSON after each fit and read back; save and load_model in the middle.
import json
import os

import keras
import numpy as np
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2718)


def merge(a, b):
    return {k: a.get(k, []) + [float(q) for q in b[k]] for k in b}


def batches(x, y, size):
    """endless generator, shuffles with the global numpy generator"""
    while True:
        idx = np.random.permutation(len(x))
        for i in range(0, len(x) - size + 1, size):
            j = idx[i:i + size]
            yield x[j], y[j]


difficulty = np.random.rand(640)
x = np.random.randn(640, 9).astype("float32")
y = np.where(x[:, 0] + x[:, 1] > 0, 1.0, 0.0)
flip = np.random.rand(640) < 0.3 * difficulty
y[flip] = 1 - y[flip]
xv, yv = x[512:], y[512:]
x, y, difficulty = x[:512], y[:512], difficulty[:512]

model = keras.Sequential([keras.Input((9,)), layers.Dense(30), layers.PReLU(), layers.AlphaDropout(0.1),
                          layers.Dense(1, activation="sigmoid")])
model.compile(keras.optimizers.Adamax(0.01), "binary_crossentropy",
              metrics=["accuracy", keras.metrics.Precision(name="prec")])

history, epoch_numbers = {}, []
done = 0
for level, epochs in ((0.4, 3), (0.7, 3), (1.01, 4)):
    easy = difficulty < level
    gen = batches(x[easy], y[easy], 16)
    h = model.fit(gen, steps_per_epoch=12, epochs=done + epochs, initial_epoch=done, validation_data=(xv, yv), verbose=2)
    done += epochs
    history = merge(history, h.history)
    epoch_numbers += h.epoch
    with open("history.json", "w") as f:
        json.dump({"history": history, "epoch": epoch_numbers}, f)
    model.save("curriculum.keras")
    model = keras.models.load_model("curriculum.keras")

# a last one on everything, arrays this time
h = model.fit(x, y, batch_size=32, epochs=done + 3, initial_epoch=done, validation_data=(xv, yv), verbose=2)
history = merge(history, h.history)
epoch_numbers += h.epoch
with open("history.json", "w") as f:
    json.dump({"history": history, "epoch": epoch_numbers}, f)

saved = json.load(open("history.json"))
d = {"json_" + k: np.array(v) for k, v in saved["history"].items()}
d["epochs"] = np.array(saved["epoch"])
d.update({f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)})
d.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
d["pred"] = model.predict(xv[:20], verbose=0)
np.savez("result.npz", **d)
