# Policy gradient on a home-made cart-pole: rollouts by sampling from the policy (np.random.choice), one fit() with sample_weight per rollout, a baseline network fitted alongside, running return statistics in Python.
import os
from collections import deque

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(52)


class CartPole:
    def __init__(self, n):
        self.n = n
        self.state = np.random.uniform(-0.05, 0.05, (n, 4))
        self.steps = np.zeros(n, int)

    def step(self, action):
        x, v, th, w = self.state.T
        force = np.where(action == 1, 10.0, -10.0)
        cos, sin = np.cos(th), np.sin(th)
        temp = (force + 0.05 * w**2 * sin) / 1.1
        thacc = (9.8 * sin - cos * temp) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        xacc = temp - 0.05 * thacc * cos / 1.1
        self.state = np.stack([x + 0.02 * v, v + 0.02 * xacc, th + 0.02 * w, w + 0.02 * thacc], 1)
        self.steps += 1
        done = (abs(self.state[:, 0]) > 2.4) | (abs(self.state[:, 2]) > 0.21) | (self.steps >= 150)
        fresh = np.random.uniform(-0.05, 0.05, (self.n, 4))
        self.state = np.where(done[:, None], fresh, self.state)
        lengths = self.steps[done]
        self.steps[done] = 0
        return done, lengths


policy = keras.Sequential([layers.Input((4,)), layers.Dense(24, activation="tanh"), layers.Dense(2, activation="softmax")])
policy.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
critic = keras.Sequential([layers.Input((4,)), layers.Dense(24, activation="relu"), layers.Dense(1)])
critic.compile(keras.optimizers.Adam(0.01), "huber")

env = CartPole(12)
recent = deque(maxlen=40)
running_mean, running_var, count = 0.0, 1.0, 1e-4
log = []
for iteration in range(15):
    S, A, D = [], [], []
    for _ in range(32):
        p = np.asarray(policy(env.state.astype("float32")))
        a = np.array([np.random.choice(2, p=q / q.sum()) for q in p.astype("float64")])
        S.append(env.state.astype("float32"))
        A.append(a)
        done, lengths = env.step(a)
        D.append(done)
        recent.extend(lengths.tolist())
    boot = np.asarray(critic(env.state.astype("float32")))[:, 0]
    R = np.zeros((32, 12), "float32")
    acc = boot * running_var**0.5 + running_mean
    for t in reversed(range(32)):
        acc = np.where(D[t], 0.0, 1.0 + 0.97 * acc)
        R[t] = acc
    s, a, r = np.concatenate(S), np.concatenate(A), R.reshape(-1)
    # Welford over batches
    delta = r.mean() - running_mean
    total = count + len(r)
    running_mean += delta * len(r) / total
    running_var = (running_var * count + r.var() * len(r) + delta**2 * count * len(r) / total) / total
    count = total
    target = (r - running_mean) / (running_var**0.5 + 1e-6)
    adv = target - critic.predict(s, verbose=0)[:, 0]
    adv = (adv - adv.mean()) / (adv.std() + 1e-6)
    h1 = policy.fit(s, a, sample_weight=adv, batch_size=64, epochs=1, verbose=0)
    h2 = critic.fit(s, target, batch_size=64, epochs=2, verbose=0)
    log.append([h1.history["loss"][0], *h2.history["loss"], np.mean(recent) if recent else 0.0, running_mean])
    print(iteration, np.round(log[-1], 3))

res = {"log": np.array(log), "env": env.state, "env_steps": env.steps, "recent": np.array(recent), "stat": np.array([running_mean, running_var, count])}
for name, m in (("policy", policy), ("critic", critic)):
    res.update({f"{name}_w{i}": w for i, w in enumerate(m.get_weights())})
    res.update({f"{name}_opt{i}": np.asarray(v) for i, v in enumerate(m.optimizer.variables)})
    res[f"pred_{name}"] = m.predict(s[:12], verbose=0)
np.savez("result.npz", **res)
