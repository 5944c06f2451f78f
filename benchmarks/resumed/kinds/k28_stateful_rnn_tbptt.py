# Stateful LSTM and GRU with truncated BPTT: states are carried from batch to batch and over epochs, reset only now and then by a callback; shuffle=False; scheduled sampling rate in a layer.
import os

import numpy as np
import keras
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(28)

B, T = 10, 12
V = 9


class CorruptInput(layers.Layer):
    """Replaces tokens by random ones with a rate that grows (own seed generator, rate in a weight)."""

    def __init__(self, vocab, **kw):
        super().__init__(**kw)
        self.vocab = vocab
        self.seed = keras.random.SeedGenerator(np.random.randint(1000))

    def build(self, shape):
        self.rate = self.add_weight(shape=(), initializer="zeros", trainable=False, name="rate")

    def call(self, x, training=False):
        if not training:
            return x
        swap = keras.random.uniform(ops.shape(x), seed=self.seed) < self.rate
        other = keras.random.randint(ops.shape(x), 0, self.vocab, seed=self.seed, dtype=x.dtype)
        return ops.where(swap, other, x)


# B long streams from a random automaton
trans = np.random.dirichlet(np.full(V, 0.2), size=(V, V))
streams = np.zeros((B, 20 * T + 1), "int32")
for b in range(B):
    p1, p2 = 0, b % V
    for t in range(streams.shape[1]):
        streams[b, t] = np.random.choice(V, p=trans[p1, p2])
        p1, p2 = p2, streams[b, t]
x = np.concatenate([streams[:, i * T : (i + 1) * T] for i in range(20)])
y = np.concatenate([streams[:, i * T + 1 : (i + 1) * T + 1] for i in range(20)])

inp = keras.Input(batch_shape=(B, T), dtype="int32")
h = CorruptInput(V, name="corrupt")(inp)
h = layers.Embedding(V, 8)(h)
h = layers.LSTM(20, return_sequences=True, stateful=True, dropout=0.1)(h)
h = layers.GRU(16, return_sequences=True, stateful=True)(h)
model = keras.Model(inp, layers.Dense(V, activation="softmax")(h))
model.compile(keras.optimizers.Adam(0.01, clipnorm=1.0), "sparse_categorical_crossentropy")


class StateKeeper(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.last_reset = 0
        self.resets = []

    def on_epoch_begin(self, epoch, logs=None):
        if epoch - self.last_reset >= 2 + len(self.resets) % 3:
            for layer in self.model.layers:
                if isinstance(layer, (layers.LSTM, layers.GRU)):
                    layer.reset_state()
            self.last_reset = epoch
            self.resets.append(epoch)

    def on_train_batch_end(self, batch, logs=None):
        r = self.model.get_layer("corrupt").rate
        r.assign(min(0.15, float(r) + 0.0005))


sk = StateKeeper()
hist = model.fit(x, y, batch_size=B, epochs=12, shuffle=False, callbacks=[sk], verbose=0)

out = {f"var{i}": np.asarray(v) for i, v in enumerate(model.variables)}  # states included
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out["loss"] = np.array(hist.history["loss"])
out["resets"] = np.array(sk.resets)
out["pred"] = model.predict(x[:20], batch_size=B, verbose=0)
np.savez("result.npz", **out)
