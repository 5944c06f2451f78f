# Small GPT on text files (text_dataset_from_directory, TextVectorization): AdamW with use_ema and warm-up cosine, steps_per_execution=2, a callback samples text with np.random.choice after every epoch.
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(46)

MAXLEN, DIM, HEADS = 12, 24, 2

# a little grammar instead of a corpus
SUBJ = ["the cat", "a dog", "my sister", "the old king", "nobody", "every child"]
VERB = ["sees", "likes", "builds", "never wanted", "sold"]
OBJ = ["the house", "a red boat", "green apples", "the moon", "music"]
TAIL = ["", "today", "in the garden", "with great joy", "and then sleeps"]
os.makedirs("corpus", exist_ok=True)
for i in range(336):
    s = f"{random.choice(SUBJ)} {random.choice(VERB)} {random.choice(OBJ)} {random.choice(TAIL)}"
    if random.random() < 0.5:
        s += f" but {random.choice(SUBJ)} {random.choice(VERB)} {random.choice(OBJ)}"
    with open(f"corpus/{i:04d}.txt", "w") as f:
        f.write(s)

text_ds = keras.utils.text_dataset_from_directory("corpus", label_mode=None, batch_size=21)
vectorize = layers.TextVectorization(output_sequence_length=MAXLEN + 1)
vectorize.adapt(text_ds)
vocab = vectorize.get_vocabulary()
VOCAB = len(vocab)


def to_xy(text):
    tokens = vectorize(text)
    return tokens[:, :-1], tokens[:, 1:]


train_ds = text_ds.map(to_xy).prefetch(tf.data.AUTOTUNE)


class TokenAndPosition(layers.Layer):
    def __init__(self):
        super().__init__()
        self.tok = layers.Embedding(VOCAB, DIM)
        self.pos = layers.Embedding(MAXLEN, DIM)

    def call(self, x):
        return self.tok(x) + self.pos(ops.arange(0, ops.shape(x)[-1]))


inp = keras.Input((MAXLEN,), dtype="int32")
x = TokenAndPosition()(inp)
a = layers.MultiHeadAttention(HEADS, DIM // HEADS, dropout=0.1)(x, x, use_causal_mask=True)
x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(a))
f = layers.Dense(DIM)(layers.Dense(2 * DIM, activation="gelu")(x))
x = layers.LayerNormalization(epsilon=1e-6)(x + layers.Dropout(0.1)(f))
model = keras.Model(inp, layers.Dense(VOCAB)(x))

schedule = keras.optimizers.schedules.CosineDecay(
    1e-4, decay_steps=200, alpha=0.05, warmup_target=6e-3, warmup_steps=30
)
opt = keras.optimizers.AdamW(schedule, weight_decay=0.01, use_ema=True, ema_momentum=0.95)
opt.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
model.compile(opt, keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0), steps_per_execution=2)


class TextGenerator(keras.callbacks.Callback):
    def __init__(self, prompt, length=8, k=5):
        super().__init__()
        self.prompt = [vocab.index(w) for w in prompt.split()]
        self.length, self.k = length, k
        self.texts = []

    def on_epoch_end(self, epoch, logs=None):
        tokens = list(self.prompt)
        while len(tokens) < self.length:
            padded = tokens + [0] * (MAXLEN - len(tokens))
            logits = np.asarray(self.model(np.array([padded])))[0, len(tokens) - 1]
            top = np.argsort(-logits)[: self.k]
            p = np.exp(logits[top] - logits[top].max()).astype("float64")
            tokens.append(int(np.random.choice(top, p=p / p.sum())))
        self.texts.append(tokens)
        print("   ", " ".join(vocab[t] for t in tokens))


gen = TextGenerator("the cat")
hist = model.fit(train_ds, epochs=10, callbacks=[gen], verbose=2)

out = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(opt.variables)})
out.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
out["texts"] = np.array(gen.texts)
out["pred"] = model.predict(np.array([gen.texts[-1] + [0] * (MAXLEN - 8)]), verbose=0)
np.savez("result.npz", **out)
