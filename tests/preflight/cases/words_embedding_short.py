"""The word index starts at 1, so the largest id equals the number of words; the Embedding needs input_dim = len(word_index) + 1."""

# finds: id-out-of-range

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(48)
rng = np.random.default_rng(48)
good = ["fine", "great", "lovely", "superb", "tasty"]
bad = ["awful", "bland", "cold", "dirty", "rude"]
other = ["the", "soup", "was", "and", "waiter", "table", "we", "had", "with", "a"]
texts, labels = [], []
for _ in range(1000):
    label = int(rng.integers(0, 2))
    words = list(rng.choice(other, 7)) + list(rng.choice(good if label else bad, 2))
    rng.shuffle(words)
    texts.append(" ".join(words))
    labels.append(label)
labels = np.array(labels)

word_index = {}
for text in texts:
    for word in text.split():
        word_index.setdefault(word, len(word_index) + 1)
sequences = [[word_index[w] for w in text.split()] for text in texts]
padded = keras.utils.pad_sequences(sequences, maxlen=10, padding="post")

vocab_size = len(word_index)  # WRONG
vocab_size = len(word_index) + 1  # RIGHT
model = keras.Sequential([
    keras.Input((10,), dtype="int32"),
    layers.Embedding(vocab_size, 8),
    layers.GlobalAveragePooling1D(),
    layers.Dense(16, activation="relu"),
    layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(padded[:800], labels[:800], epochs=3, batch_size=20, validation_split=0.1, verbose=2)
print("test", model.evaluate(padded[800:], labels[800:], verbose=0))
