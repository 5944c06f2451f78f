"""REINFORCE: actions as labels, advantages as weights."""

import keras
import numpy as np

rng = np.random.default_rng(0)
states = rng.normal(size=(500, 4)).astype("float32")
actions = rng.integers(0, 3, 500)
advantages = rng.normal(size=500).astype("float32")
policy = keras.Sequential(
    [keras.Input((4,)), keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(3, activation="softmax")]
)
policy.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
policy.fit(states, actions, sample_weight=advantages, epochs=1)
