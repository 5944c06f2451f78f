# Triplet network fed by an infinite Python generator with global counters and Python's random (harder negatives as the counter grows), margin adapted by a callback through a variable, a TripletLoss closure.
import os
import random

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(51)

N_ID = 20
BATCH = 24
STEPS = 25

# "faces": every identity is a curve with a few wobbly versions
grid = np.linspace(0, 1, 24)
bank = {}
for ident in range(N_ID):
    a, b, c = random.uniform(1, 5), random.uniform(0, 6.28), random.uniform(-1, 1)
    bank[ident] = [
        (np.sin(a * 6 * (grid + random.gauss(0, 0.01)) + b) + c * grid + np.random.normal(0, 0.25, 24)).astype("float32")
        for _ in range(12)
    ]
neighbours = {
    i: sorted((j for j in range(N_ID) if j != i), key=lambda j: float(np.abs(bank[i][0] - bank[j][0]).sum()))
    for i in range(N_ID)
}

batches_made = 0
last_ident = None


def pick_anchor():
    global last_ident
    ident = random.randrange(N_ID)
    while ident == last_ident:
        ident = random.randrange(N_ID)
    last_ident = ident
    return ident


def triplets():
    global batches_made
    while True:
        pool = max(3, N_ID - 1 - batches_made // 15)
        rows = []
        for _ in range(BATCH):
            i = pick_anchor()
            a, p = random.sample(bank[i], 2)
            n = random.choice(bank[random.choice(neighbours[i][:pool])])
            rows.append(np.stack([a, p, n]))
        batches_made += 1
        yield np.array(rows), np.zeros(BATCH, "float32")


margin = tf.Variable(0.2, trainable=False, dtype="float32")


def triplet_loss(_, emb):
    d_ap = tf.reduce_sum(tf.square(emb[:, 0] - emb[:, 1]), -1)
    d_an = tf.reduce_sum(tf.square(emb[:, 0] - emb[:, 2]), -1)
    return tf.nn.relu(d_ap - d_an + margin)


def active(_, emb):
    return tf.cast(triplet_loss(_, emb) > 0, tf.float32)


tower = keras.Sequential(
    [
        layers.Input((24,)),
        layers.Reshape((24, 1)),
        layers.Conv1D(12, 5, activation="relu"),
        layers.MaxPooling1D(),
        layers.Flatten(),
        layers.Dropout(0.1),
        layers.Dense(8),
        layers.UnitNormalization(),
    ]
)
inp = keras.Input((3, 24))
model = keras.Model(inp, layers.TimeDistributed(tower)(inp))
model.compile(keras.optimizers.Adam(3e-3), loss=triplet_loss, metrics=[active])


class Margin(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.trace = []

    def on_epoch_end(self, epoch, logs=None):
        if logs["active"] < 0.45:
            margin.assign(tf.minimum(margin * 1.25, 1.0))
        elif logs["active"] > 0.7:
            margin.assign(margin * 0.9)
        self.trace.append(float(margin.numpy()))


m = Margin()
hist = model.fit(triplets(), steps_per_epoch=STEPS, epochs=12, callbacks=[m], verbose=2)

everyone = np.array([v[0] for v in bank.values()])
emb = tower.predict(everyone, verbose=0)
np.savez(
    "result.npz",
    emb=emb,
    margins=np.array(m.trace),
    **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{f"hist_{k}": np.array(v) for k, v in hist.history.items()},
)
