"""Next-letter model with causal attention: input and target are the same text shifted by one, logits and padding left out by sample weights."""
import numpy as np
import keras
from keras import layers, ops

keras.utils.set_random_seed(77)
rng = np.random.default_rng(77)
words = ["banana", "cherry", "papaya", "orange", "melon", "lemon", "fig", "grape"]
letters = sorted(set("".join(words)) | {" "})
ids = {c: i + 1 for i, c in enumerate(letters)}
LEN = 16
texts = []
for _ in range(600):
    texts.append(" ".join(rng.choice(words, 3))[:int(rng.integers(12, LEN + 2))])
seq = keras.utils.pad_sequences([[ids[c] for c in t] for t in texts], maxlen=LEN + 1, padding="post")
x, y = seq[:, :-1], seq[:, 1:]
weight = (y != 0).astype("float32")


class Positions(layers.Layer):
    def __init__(self, length, dim, **kwargs):
        super().__init__(**kwargs)
        self.table = layers.Embedding(length, dim)

    def call(self, h):
        return h + self.table(ops.arange(ops.shape(h)[1]))


inputs = keras.Input((LEN,), dtype="int32")
h = layers.Embedding(len(ids) + 1, 32)(inputs)
h = Positions(LEN, 32)(h)
a = layers.MultiHeadAttention(2, 16)(h, h, use_causal_mask=True)
h = layers.LayerNormalization()(layers.Add()([h, a]))
f = layers.Dense(64, activation="relu")(h)
h = layers.LayerNormalization()(layers.Add()([h, layers.Dense(32)(f)]))
logits = layers.Dense(len(ids) + 1)(h)
model = keras.Model(inputs, logits)
model.compile(optimizer=keras.optimizers.Adam(0.005),
              loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), weighted_metrics=["accuracy"])
model.fit(x[:500], y[:500], sample_weight=weight[:500], epochs=3, batch_size=20,
          validation_data=(x[500:], y[500:], weight[500:]), verbose=2)
print("val", model.evaluate(x[500:], y[500:], sample_weight=weight[500:], verbose=0))
