# One-epoch fits in a while loop until a criterion is met: learning rate halved and weights rolled back when the validation loss rises, noise level of the data lowered by progress, stops by patience or goal.
import os

import numpy as np
import tensorflow as tf
from tensorflow.keras import Sequential, layers, optimizers, utils

if os.environ.get("UNSEEDED") != "1":
    utils.set_random_seed(25)

a = np.random.rand(600, 4) * 2 - 1
target = np.stack([a[:, 0] * a[:, 1], np.sin(3 * a[:, 2]) + a[:, 3] ** 2], 1)
a, target = a.astype("float32"), target.astype("float32")
a_val, t_val = a[480:], target[480:]
a, target = a[:480], target[:480]

model = Sequential([layers.Input((4,)), layers.Dense(40, activation="tanh"), layers.Dense(40, activation="tanh"), layers.Dense(2)])
model.compile(optimizer=optimizers.Adam(0.02), loss="mse")

best = float("inf")
best_weights = model.get_weights()
wait, rounds, rollbacks = 0, 0, 0
sigma = 0.2
track = []

while best > 0.03 and wait < 6 and rounds < 30:
    rounds += 1
    noisy = a + np.random.normal(0, sigma, a.shape).astype("float32")
    mask = np.random.rand(len(a)) < 0.9
    h = model.fit(noisy[mask], target[mask], epochs=1, batch_size=32, verbose=0)
    val = model.evaluate(a_val, t_val, verbose=0)
    track.append([h.history["loss"][0], val, sigma, float(model.optimizer.learning_rate)])
    if val < best:
        best, wait = val, 0
        best_weights = [w.copy() for w in model.get_weights()]
        sigma *= 0.85
    else:
        wait += 1
        if val > 1.3 * best:
            model.set_weights(best_weights)
            rollbacks += 1
        if wait % 2 == 0:
            model.optimizer.learning_rate.assign(model.optimizer.learning_rate * 0.5)
    print(f"round {rounds}: loss {track[-1][0]:.4f} val {val:.4f} sigma {sigma:.3f} wait {wait}")

np.savez(
    "result.npz",
    track=np.array(track),
    state=np.array([best, wait, rounds, rollbacks, sigma]),
    next_noise=np.random.rand(3),
    pred=model.predict(a_val[:15], verbose=0),
    **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    **{f"best{i}": w for i, w in enumerate(best_weights)},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
)
