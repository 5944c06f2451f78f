# Population based training by hand: four models are fitted in turns, the worst copies weights and optimizer state of the best and perturbs its hyper-parameters.
import os
import random

import keras
import numpy as np

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(1234)

POP, GENS = 4, 5
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(420, 7)).astype("float32")
Y = (np.cos(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.05 * rng.normal(size=420)).astype("float32")
Xt, Yt, Xv, Yv = X[:320], Y[:320], X[320:], Y[320:]


class Member:
    def __init__(self, idx):
        self.idx = idx
        self.lr = 10 ** random.uniform(-4, -1.5)
        self.noise = random.choice([0.0, 0.01, 0.05])
        self.model = keras.Sequential([
            keras.Input((7,)), keras.layers.Dense(24, activation="relu"),
            keras.layers.Dropout(0.1), keras.layers.Dense(1)])
        self.model.compile(keras.optimizers.Adam(self.lr), "mse")
        self.losses, self.scores, self.lrs = [], [], []

    def train(self, gen):
        x = Xt + self.noise * np.random.randn(*Xt.shape)
        h = self.model.fit(x, Yt, batch_size=40, epochs=(gen + 1) * 2, initial_epoch=gen * 2, verbose=0)
        self.losses += h.history["loss"]
        self.lrs.append(self.lr)
        self.score = self.model.evaluate(Xv, Yv, verbose=0)
        self.scores.append(self.score)

    def exploit(self, other):
        self.model.set_weights(other.model.get_weights())
        for mine, theirs in zip(self.model.optimizer.variables, other.model.optimizer.variables):
            mine.assign(theirs)

    def explore(self):
        self.lr *= random.choice([0.8, 1.25])
        self.noise = random.choice([0.0, 0.01, 0.05])
        self.model.optimizer.learning_rate.assign(self.lr)


population = [Member(i) for i in range(POP)]
lineage = []
for gen in range(GENS):
    for m in population:
        m.train(gen)
    ranked = sorted(population, key=lambda m: m.score)
    best, worst = ranked[0], ranked[-1]
    print(f"gen {gen}: best {best.idx} {best.score:.4f}  worst {worst.idx} {worst.score:.4f}")
    lineage.append((best.idx, worst.idx))
    worst.lr = best.lr
    worst.exploit(best)
    worst.explore()

final = min(population, key=lambda m: m.score)
final.model.save("best_member.keras")
back = keras.models.load_model("best_member.keras")

r = {"lineage": np.array(lineage), "best": np.array(final.idx), "pred": back.predict(Xv[:20], verbose=0)}
for m in population:
    r[f"m{m.idx}_losses"] = np.array(m.losses)
    r[f"m{m.idx}_scores"] = np.array(m.scores)
    r[f"m{m.idx}_lrs"] = np.array(m.lrs)
    for i, v in enumerate(m.model.variables):
        r[f"m{m.idx}_v{i}"] = np.asarray(v)
    for i, v in enumerate(m.model.optimizer.variables):
        r[f"m{m.idx}_o{i}"] = np.asarray(v)
np.savez("result.npz", **r)
