# Recommender (matrix factorisation plus MLP) with negatives drawn anew each epoch by a Sequence (np.random.randint, Python sets), a HitRate callback with its own patience that saves and puts back the best model.
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(58)

USERS, ITEMS, NEG = 60, 90, 3
taste = np.random.randn(USERS, 4)
style = np.random.randn(ITEMS, 4)
prob = taste @ style.T + 0.5 * np.random.randn(USERS, ITEMS)
liked = {u: [int(i) for i in np.argsort(-prob[u])[: np.random.randint(8, 18)]] for u in range(USERS)}
held_out = {}
for u in liked:
    held_out[u] = liked[u].pop(np.random.randint(len(liked[u])))
positives = [(u, i) for u in liked for i in liked[u]]
seen = {u: set(liked[u]) for u in liked}


class Interactions(keras.utils.Sequence):
    def __init__(self, pairs, batch_size):
        super().__init__()
        self.pairs, self.batch_size = np.array(pairs), batch_size
        self.rejected = 0
        self.on_epoch_end()

    def on_epoch_end(self):
        rows = [(u, i, 1) for u, i in self.pairs]
        for u, _ in self.pairs:
            for _ in range(NEG):
                j = np.random.randint(ITEMS)
                while j in seen[int(u)]:
                    self.rejected += 1
                    j = np.random.randint(ITEMS)
                rows.append((u, j, 0))
        self.rows = np.array(rows)
        np.random.shuffle(self.rows)

    def __len__(self):
        return len(self.rows) // self.batch_size

    def __getitem__(self, k):
        b = self.rows[k * self.batch_size : (k + 1) * self.batch_size]
        return {"user": b[:, 0], "item": b[:, 1]}, b[:, 2].astype("float32")


user, item = keras.Input((), dtype="int32", name="user"), keras.Input((), dtype="int32", name="item")
u_mf, i_mf = layers.Embedding(USERS, 8)(user), layers.Embedding(ITEMS, 8)(item)
u_nn, i_nn = layers.Embedding(USERS, 8)(user), layers.Embedding(ITEMS, 8)(item)
deep = layers.Dense(24, activation="relu")(layers.Concatenate()([u_nn, i_nn]))
deep = layers.Dropout(0.2)(deep)
both = layers.Concatenate()([layers.Multiply()([u_mf, i_mf]), layers.Dense(8, activation="relu")(deep)])
model = keras.Model({"user": user, "item": item}, layers.Dense(1, activation="sigmoid")(both))
model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=[keras.metrics.AUC()])


class HitRate(keras.callbacks.Callback):
    def __init__(self, k=10, patience=3):
        super().__init__()
        self.k, self.patience = k, patience
        self.best, self.bad, self.best_epoch = -1.0, 0, None
        self.rates = []

    def on_epoch_end(self, epoch, logs=None):
        hits = 0
        for u in range(0, USERS, 6):  # some at a time
            us = np.arange(u, min(u + 6, USERS))
            scores = self.model.predict_on_batch(
                {"user": np.repeat(us, ITEMS), "item": np.tile(np.arange(ITEMS), len(us))}
            ).reshape(len(us), ITEMS)
            for r, uu in enumerate(us):
                scores[r, list(seen[int(uu)])] = -1
                hits += held_out[int(uu)] in np.argsort(-scores[r])[: self.k]
        logs["hr"] = hits / USERS
        self.rates.append(logs["hr"])
        if logs["hr"] > self.best:
            self.best, self.bad, self.best_epoch = logs["hr"], 0, epoch
            self.model.save("best_recommender.keras")
        else:
            self.bad += 1
            if self.bad >= self.patience and epoch >= 6:
                self.model.stop_training = True


data = Interactions(positives, 64)
hr = HitRate()
hist = model.fit(data, epochs=12, callbacks=[hr], verbose=2)
best = keras.models.load_model("best_recommender.keras")

out = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({f"best{i}": w for i, w in enumerate(best.get_weights())})
out.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
out["rates"] = np.array(hr.rates)
out["state"] = np.array([hr.best, hr.bad, hr.best_epoch, data.rejected, len(hist.epoch)])
out["rows"] = data.rows
out["pred"] = best.predict({"user": np.zeros(ITEMS, int), "item": np.arange(ITEMS)}, verbose=0)
np.savez("result.npz", **out)
