"""Short texts are padded at the end to 120 tokens without mask_zero, so the LSTM ends with a hundred zeros and forgets the words."""

# finds: same-answer-for-all

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(50)
rng = np.random.default_rng(50)
n, vocab, maxlen = 700, 60, 120
label = rng.integers(0, 2, n)
seqs = []
for k in range(n):
    s = rng.integers(20, vocab, rng.integers(4, 10))
    s[rng.choice(len(s), 2, replace=False)] = rng.integers(1, 10, 2) + 10 * label[k]
    seqs.append(s)
x = keras.utils.pad_sequences(seqs, maxlen=maxlen, padding="post")
x_train, y_train, x_val, y_val = x[:560], label[:560], x[560:], label[560:]

mask = False  # WRONG
mask = True  # RIGHT
model = keras.Sequential([
    keras.Input((maxlen,), dtype="int32"),
    layers.Embedding(vocab, 16, mask_zero=mask),
    layers.LSTM(16),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=28, epochs=3, validation_data=(x_val, y_val), verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0))
