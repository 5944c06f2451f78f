"""The token ids were divided by the vocabulary size as if they were pixels, so the Embedding sees only zeros."""

# finds: id-out-of-range, same-answer-for-all

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(75)
rng = np.random.default_rng(75)
vocab = 150
y = rng.integers(0, 3, 1200)
ids = rng.integers(40, vocab, (1200, 12))
for i, k in enumerate(y):
    where = rng.choice(12, 4, replace=False)
    ids[i, where] = rng.integers(1 + 12 * k, 13 + 12 * k, 4)

x = (ids / vocab).astype("float32")  # WRONG
x = ids.astype("int32")  # RIGHT
model = keras.Sequential([
    keras.Input((12,), dtype=x.dtype),
    layers.Embedding(vocab, 16),
    layers.Bidirectional(layers.GRU(12)),
    layers.Dense(3, activation="softmax"),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x[:1000], y[:1000], validation_split=0.2, epochs=3, batch_size=25, verbose=2)
print("test:", model.evaluate(x[1000:], y[1000:], verbose=0))
