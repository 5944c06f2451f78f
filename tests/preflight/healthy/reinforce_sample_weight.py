"""Healthy: REINFORCE through train_on_batch, the advantages (some negative) are the sample weights."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(112)
rng = np.random.default_rng(112)
policy = keras.Sequential([
    keras.Input((5,)),
    layers.Dense(32, activation="tanh"),
    layers.Dense(4, activation="softmax"),
])
policy.compile(optimizer=keras.optimizers.Adam(1e-2), loss="sparse_categorical_crossentropy")

history = []
for iteration in range(80):
    states = rng.normal(size=(64, 5)).astype("float32")
    probs = policy.predict_on_batch(states)
    actions = np.array([rng.choice(4, p=p / p.sum()) for p in probs.astype("float64")])
    best = (states[:, 0] > 0) * 2 + (states[:, 1] > 0)
    rewards = (actions == best).astype("float32")
    baseline = np.mean(history[-10:]) if history else rewards.mean()
    history.append(rewards.mean())
    policy.train_on_batch(states, actions, sample_weight=rewards - baseline)
print("reward first/last:", np.mean(history[:10]), np.mean(history[-10:]))
