# Greedy layer-wise pre-training of a stacked denoising autoencoder, one fit per layer, then fine-tuning of the whole stack and of a classifier.
import os

import keras
import numpy as np
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(6)

protos = np.random.rand(4, 64) > 0.5
label = np.random.randint(0, 4, 600)
flip = np.random.rand(600, 64) < 0.15
data = np.logical_xor(protos[label], flip).astype("float32")

dims = [64, 32, 16, 6]
encoders, decoders, layer_hist = [], [], []
current = data
for i in range(len(dims) - 1):
    print(f"pre-training layer {i}: {dims[i]} -> {dims[i + 1]}")
    inp = keras.Input((dims[i],))
    enc = layers.Dense(dims[i + 1], activation="sigmoid" if i else "relu", name=f"enc{i}")
    dec = layers.Dense(dims[i], activation="sigmoid" if i == 0 else None, name=f"dec{i}")
    ae = keras.Model(inp, dec(enc(layers.Dropout(0.2)(inp))))
    ae.compile(optimizer=keras.optimizers.Adam(1e-2), loss="binary_crossentropy" if i == 0 else "mse")
    h = ae.fit(current, current, epochs=4, batch_size=50, verbose=0)
    layer_hist.append(h.history["loss"])
    current = keras.Model(inp, enc(inp)).predict(current, verbose=0)
    encoders.append(enc)
    decoders.append(dec)

# whole stack
inp = keras.Input((64,))
h = inp
for e in encoders:
    h = e(h)
code = h
for d in reversed(decoders):
    h = d(h)
stack = keras.Model(inp, h, name="stack")
stack.compile(optimizer="adam", loss="binary_crossentropy")
stack_hist = stack.fit(data, data, epochs=4, batch_size=50, validation_split=0.1, verbose=2)

clf = keras.Sequential([keras.Model(inp, code), layers.Dense(4, activation="softmax")], name="clf")
clf.compile("rmsprop", "sparse_categorical_crossentropy", metrics=["accuracy"])
clf_hist = clf.fit(data, label, epochs=5, batch_size=50, validation_split=0.1, verbose=2)

o = {f"layer{i}": np.array(l) for i, l in enumerate(layer_hist)}
o["codes"] = current[:50]
for m, hh in ((stack, stack_hist), (clf, clf_hist)):
    for k, v in hh.history.items():
        o[f"{m.name}_{k}"] = np.array(v)
    for i, v in enumerate(m.variables):
        o[f"{m.name}_v{i}"] = np.asarray(v)
    for i, v in enumerate(m.optimizer.variables):
        o[f"{m.name}_o{i}"] = np.asarray(v)
o["rec"] = stack.predict(data[:10], verbose=0)
o["prob"] = clf.predict(data[:10], verbose=0)
np.savez("result.npz", **o)
