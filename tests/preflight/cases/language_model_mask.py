"""The next-token model attends to later positions because use_causal_mask is not set: it can read the token it should predict."""

# finds: reads-ahead

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(74)
rng = np.random.default_rng(74)
vocab, length = 20, 16
table = rng.dirichlet(np.full(vocab, 0.1), vocab)
text = np.zeros((1000, length + 1), "int32")
text[:, 0] = rng.integers(0, vocab, 1000)
for t in range(length):
    u = rng.random((1000, 1))
    text[:, t + 1] = np.minimum((table[text[:, t]].cumsum(axis=1) < u).sum(axis=1), vocab - 1)
x, y = text[:, :-1], text[:, 1:]

class Block(layers.Layer):
    def __init__(self):
        super().__init__()
        self.attention = layers.MultiHeadAttention(2, 16)
        self.ffn = keras.Sequential([layers.Dense(64, activation="relu"), layers.Dense(32)])
        self.norm1, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()

    def call(self, h):
        mixed = self.attention(h, h)  # WRONG
        mixed = self.attention(h, h, use_causal_mask=True)  # RIGHT
        h = self.norm1(h + mixed)
        return self.norm2(h + self.ffn(h))


class Positions(layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(length, 32), initializer="random_normal")

    def call(self, h):
        return h + self.table


inputs = keras.Input((length,), dtype="int32")
h = Positions()(layers.Embedding(vocab, 32)(inputs))
outputs = layers.Dense(vocab)(Block()(Block()(h)))
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x[:850], y[:850], validation_data=(x[850:], y[850:]), epochs=3, batch_size=16, verbose=2)
