# Population based training: three models trained in turn by many short fits, exploit/explore by Python's random, all scores in an sqlite file that is queried for the decisions.
import os
import random
import sqlite3

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(40)

X = np.random.randn(720, 9).astype("float32")
y = (np.where(X[:, 0] > 0, X[:, 1], X[:, 2] * X[:, 3]) + 0.1 * np.random.randn(720)).astype("float32")
Xt, yt, Xv, yv = X[:576], y[:576], X[576:], y[576:]

db = sqlite3.connect("pbt.db")
db.execute("create table if not exists scores (id integer primary key autoincrement, round int, member int, lr real, drop_rate real, loss real)")
db.execute("create table if not exists events (round int, loser int, winner int)")
db.commit()


class Tape(keras.callbacks.Callback):
    """Each member writes what it does, batch means included."""

    def __init__(self, member):
        super().__init__()
        self.member = member
        self.total = 0

    def on_epoch_end(self, epoch, logs=None):
        self.total += 1
        db.execute(
            "insert into scores (round, member, lr, drop_rate, loss) values (?,?,?,?,?)",
            (epoch, self.member.no, self.member.lr, self.member.noise.stddev, float(logs["val_loss"])),
        )
        db.commit()


class Member:
    def __init__(self, no):
        self.no = no
        self.lr = 10 ** random.uniform(-3, -1.3)
        self.noise = layers.GaussianNoise(random.uniform(0.0, 0.3))
        self.model = keras.Sequential(
            [keras.Input((9,)), self.noise, layers.Dense(40, activation="relu"), layers.Dense(40, activation="relu"), layers.Dense(1)]
        )
        self.model.compile(keras.optimizers.Adam(self.lr), "mse")
        self.tape = Tape(self)
        self.losses = []

    def train(self, rnd):
        self.model.optimizer.learning_rate = self.lr
        h = self.model.fit(
            Xt, yt, initial_epoch=rnd, epochs=rnd + 1, batch_size=32, validation_data=(Xv, yv), callbacks=[self.tape], verbose=0
        )
        self.losses += h.history["loss"]


pop = [Member(i) for i in range(3)]
for rnd in range(8):
    for m in random.sample(pop, 3):
        m.train(rnd)
    if rnd % 2 == 1:
        # mean over the last two rounds decides
        ranking = [
            r[0]
            for r in db.execute(
                "select member from scores where round >= ? group by member order by avg(loss), member", (rnd - 1,)
            )
        ]
        winner, loser = pop[ranking[0]], pop[ranking[-1]]
        loser.model.set_weights(winner.model.get_weights())
        for a, b in zip(loser.model.optimizer.variables, winner.model.optimizer.variables):
            a.assign(b)
        loser.lr = winner.lr * random.choice([0.7, 1.4])
        db.execute("insert into events values (?,?,?)", (rnd, loser.no, winner.no))
        db.commit()

res = {}
for m in pop:
    for i, v in enumerate(m.model.variables):
        res[f"m{m.no}_v{i}"] = np.asarray(v)
    for i, v in enumerate(m.model.optimizer.variables):
        res[f"m{m.no}_o{i}"] = np.asarray(v)
    res[f"m{m.no}_loss"] = np.array(m.losses)
    res[f"m{m.no}_hp"] = np.array([m.lr, m.noise.stddev, m.tape.total])
    res[f"m{m.no}_pred"] = m.model.predict(Xv[:8], verbose=0)
res["scores"] = np.array(db.execute("select * from scores order by id").fetchall())
res["events"] = np.array(db.execute("select * from events").fetchall())
np.savez("result.npz", **res)
