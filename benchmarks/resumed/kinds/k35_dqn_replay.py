# Double DQN inside model.fit: a PyDataset plays an environment with the model itself before every epoch (epsilon-greedy, deque replay buffer, env state), target net synced by step count.
import os
import random
from collections import deque

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(35)


class Corridor:
    """Walk to the flag on a windy 7x7 grid."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.episodes = 0
        self.reset()

    def reset(self):
        self.episodes += 1
        self.pos = [self.rng.randrange(7), 0]
        self.flag = [self.rng.randrange(7), 6]
        self.t = 0
        return self.obs()

    def obs(self):
        return np.array([*self.pos, *self.flag, self.t / 5.0], "float32") / 6.0

    def step(self, a):
        dx, dy = [(0, 1), (0, -1), (1, 0), (-1, 0)][a]
        if self.rng.random() < 0.1:
            dx += self.rng.choice([-1, 1])
        before = abs(self.pos[0] - self.flag[0]) + abs(self.pos[1] - self.flag[1])
        self.pos = [min(6, max(0, self.pos[0] + dx)), min(6, max(0, self.pos[1] + dy))]
        after = abs(self.pos[0] - self.flag[0]) + abs(self.pos[1] - self.flag[1])
        self.t += 1
        done = after == 0 or self.t >= 30
        return self.obs(), 0.2 * (before - after) + (1.0 if after == 0 else 0.0), done


class QModel(keras.Model):
    def __init__(self, sync_every=40):
        super().__init__()
        mk = lambda: keras.Sequential(
            [keras.Input((5,)), keras.layers.Dense(48, activation="relu"), keras.layers.Dense(48, activation="relu"), keras.layers.Dense(4)]
        )
        self.q, self.target = mk(), mk()
        self.target.trainable = False
        self.target.set_weights(self.q.get_weights())
        self.steps = tf.Variable(0, trainable=False)
        self.sync_every = sync_every

    def call(self, s):
        return self.q(s)

    def train_step(self, data):
        (s, a, r, s2, d), _ = data
        best = tf.argmax(self.q(s2), 1, output_type=tf.int32)
        boot = tf.gather(self.target(s2), best, batch_dims=1)
        goal = tf.stop_gradient(r + 0.95 * (1 - d) * boot)
        with tf.GradientTape() as tape:
            qa = tf.gather(self.q(s), a, batch_dims=1)
            loss = tf.reduce_mean(tf.keras.losses.huber(goal[:, None], qa[:, None]))
        vs = self.q.trainable_variables
        self.optimizer.apply(tape.gradient(loss, vs), vs)
        self.steps.assign_add(1)
        sync = tf.cast(tf.equal(self.steps % self.sync_every, 0), tf.float32)
        for t, o in zip(self.target.weights, self.q.weights):
            t.assign(sync * o + (1 - sync) * t)
        return {"loss": loss, "q": tf.reduce_mean(qa)}


class Replay(keras.utils.PyDataset):
    def __init__(self, model, env, steps=20, batch=32, **kw):
        super().__init__(**kw)
        self.model, self.env, self.steps, self.batch = model, env, steps, batch
        self.buffer = deque(maxlen=1500)
        self.sampler = random.Random(np.random.randint(10**9))
        self.eps = 1.0
        self.returns, self.acc = [], 0.0
        self.s = env.reset()
        self.play(150)

    def play(self, n):
        for _ in range(n):
            if np.random.rand() < self.eps:
                a = np.random.randint(4)
            else:
                a = int(np.argmax(self.model(self.s[None])[0]))
            s2, r, done = self.env.step(a)
            self.buffer.append((self.s, a, np.float32(r), s2, np.float32(done)))
            self.acc += r
            self.s = s2
            if done:
                self.returns.append(self.acc)
                self.acc = 0.0
                self.s = self.env.reset()
        self.eps = max(0.05, self.eps * 0.85)

    def __len__(self):
        return self.steps

    def __getitem__(self, i):
        rows = [self.buffer[self.sampler.randrange(len(self.buffer))] for _ in range(self.batch)]
        s, a, r, s2, d = (np.array(c) for c in zip(*rows))
        return (s, a.astype("int32"), r, s2, d), np.zeros(self.batch, "float32")

    def on_epoch_begin(self):
        self.play(60)


model = QModel()
model.compile(optimizer=keras.optimizers.Adam(2e-3))
model(np.zeros((1, 5), "float32"))
data = Replay(model, Corridor(random.randrange(10**6)))
h = model.fit(data, epochs=14, verbose=0)

res = {f"q{i}": w for i, w in enumerate(model.q.get_weights())}
res.update({f"target{i}": w for i, w in enumerate(model.target.get_weights())})
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"h_{k}": np.array(v) for k, v in h.history.items()})
res["returns"] = np.array(data.returns)
res["buffer"] = np.array([np.concatenate([s, [a, r], s2, [d]]) for s, a, r, s2, d in data.buffer])
res["env"] = np.array([*data.env.pos, *data.env.flag, data.env.t, data.env.episodes, data.env.rng.random()])
res["state"] = np.array([data.eps, data.acc, model.steps.numpy(), data.sampler.random(), np.random.rand()])
res["pred"] = np.asarray(model(res["buffer"][:10, :5].astype("float32")))
np.savez("result.npz", **res)
