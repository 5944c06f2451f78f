# Character-level name classification: text files read by TextLineDataset, StringLookup vocabulary, shuffle and padded_batch of uneven lengths, a masked GRU.
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(45)

syllables = {
    "norse": ["thor", "ulf", "sig", "run", "bjo", "gard", "hild", "ar", "stein"],
    "latin": ["mar", "cus", "jul", "ia", "au", "rel", "ius", "tit", "va"],
    "nippon": ["ka", "zu", "mi", "ko", "ta", "ro", "hi", "sa", "shi"],
}
os.makedirs("names", exist_ok=True)
for lang, parts in syllables.items():
    with open(f"names/{lang}.txt", "w") as f:
        for _ in range(300):
            name = "".join(random.choice(parts) for _ in range(random.randint(2, 4)))
            for _ in range(random.randrange(3)):  # typos
                p = random.randrange(len(name))
                name = name[:p] + random.choice("abcdefghijklmnopqrstuvwxyz") + name[p + 1 :]
            f.write(name + "\n")

labels = sorted(syllables)
parts = []
for i, lang in enumerate(labels):
    ds = tf.data.TextLineDataset(f"names/{lang}.txt")
    parts.append(ds.map(lambda line, i=i: (line, i)))
everything = parts[0].concatenate(parts[1]).concatenate(parts[2])

lookup = layers.StringLookup()
lookup.adapt(everything.map(lambda s, y: tf.strings.bytes_split(s)).ragged_batch(64))
print(lookup.get_vocabulary()[:5])


def encode(s, y):
    return lookup(tf.strings.bytes_split(s)), y


encoded = everything.map(encode).cache().shuffle(900, reshuffle_each_iteration=False)
val = encoded.take(150).padded_batch(50)
train = encoded.skip(150).shuffle(300).padded_batch(30)

inp = keras.Input((None,), dtype="int64")
x = layers.Embedding(lookup.vocabulary_size(), 12, mask_zero=True)(inp)
x = layers.GRU(20)(x)
x = layers.Dropout(0.25)(x)
model = keras.Model(inp, layers.Dense(3, activation="softmax")(x))
model.compile(
    keras.optimizers.Adam(keras.optimizers.schedules.InverseTimeDecay(0.01, 100, 0.5)),
    "sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
hist = model.fit(train, validation_data=val, epochs=8, verbose=2)

arrays = {}
for i, v in enumerate(model.variables):
    arrays[f"var{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    arrays[f"opt{i}"] = np.asarray(v)
for k, v in hist.history.items():
    arrays[f"hist_{k}"] = np.array(v)
arrays["pred"] = model.predict(val, verbose=0)
np.savez("result.npz", **arrays)
