# word2vec with negative sampling from Dataset.from_generator over one long-lived Python stream object (random.Random, Counter, position in the corpus).
import os
import random
from collections import Counter

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(5)

VOCAB, DIM, BATCH = 120, 16, 128

# a corpus with topics
words = []
topic = 0
for _ in range(20000):
    if random.random() < 0.05:
        topic = random.randrange(6)
    words.append(topic * 20 + min(19, int(random.expovariate(0.25))))


class SkipGramStream:
    """Walks over the corpus for ever; every epoch continues where the last one stopped."""

    def __init__(self, words, batches_per_epoch, seed=None):
        self.words = words
        self.batches_per_epoch = batches_per_epoch
        self.rng = random.Random(seed)
        self.pos = 0
        self.laps = 0
        self.seen = Counter()
        self.table = list(words)
        self.leftover = []

    def subsample(self, w):
        # frequent words so far are dropped more often
        total = sum(self.seen.values()) + 1
        f = self.seen[w] / total
        self.seen[w] += 1
        return f > 0.01 and self.rng.random() < 1 - (0.01 / f) ** 0.5

    def fill(self):
        while len(self.leftover) < BATCH:
            if self.pos >= len(self.words):
                self.pos = 0
                self.laps += 1
                self.rng.shuffle(self.table)
            w = self.words[self.pos]
            if not self.subsample(w):
                win = self.rng.randint(1, 3)
                for j in range(max(0, self.pos - win), min(len(self.words), self.pos + win + 1)):
                    if j != self.pos:
                        self.leftover.append((w, self.words[j], 1.0))
                        for _ in range(2):
                            self.leftover.append((w, self.rng.choice(self.table), 0.0))
            self.pos += 1

    def __call__(self):
        for _ in range(self.batches_per_epoch):
            self.fill()
            b, self.leftover = self.leftover[:BATCH], self.leftover[BATCH:]
            c, o, l = zip(*b)
            yield (np.array(c, "int32"), np.array(o, "int32")), np.array(l, "float32")


stream = SkipGramStream(words, 50, seed=random.getrandbits(32))
ds = tf.data.Dataset.from_generator(
    stream,
    output_signature=(
        (tf.TensorSpec((None,), tf.int32), tf.TensorSpec((None,), tf.int32)),
        tf.TensorSpec((None,), tf.float32),
    ),
).prefetch(2)

center = keras.Input((), dtype="int32")
context = keras.Input((), dtype="int32")
e_in = keras.layers.Embedding(VOCAB, DIM, name="in_emb")
e_out = keras.layers.Embedding(VOCAB, DIM, name="out_emb")
logit = keras.layers.Dot(axes=1)([e_in(center), e_out(context)])
model = keras.Model([center, context], logit)
model.compile(keras.optimizers.Adagrad(0.5), keras.losses.BinaryCrossentropy(from_logits=True))
h = model.fit(ds, epochs=11, verbose=0)

np.savez(
    "result.npz",
    **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    **{f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    loss=np.array(h.history["loss"]),
    position=np.array([stream.pos, stream.laps, len(stream.leftover)]),
    seen=np.array([stream.seen[i] for i in range(VOCAB)]),
    rng_next=np.array([stream.rng.random() for _ in range(5)]),
    pred=model.predict([np.arange(20), np.arange(20, 40)], verbose=0),
)
