"""The policy gradient loss lacks its minus sign, so actions with a high reward are made less likely."""

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(54)
rng = np.random.default_rng(54)
policy = keras.Sequential([
    keras.Input((4,)),
    layers.Dense(32, activation="tanh"),
    layers.Dense(3),
])
optimizer = keras.optimizers.Adam(1e-2)

def play(n):
    state = rng.normal(size=(n, 4)).astype("float32")
    logits = policy(state, training=False)
    action = tf.random.categorical(logits, 1)[:, 0].numpy()
    reward = (action == state[:, :3].argmax(axis=1)).astype("float32")
    return state, action, reward


rewards = []
for episode in range(100):
    state, action, reward = play(64)
    advantage = reward - reward.mean()
    with tf.GradientTape() as tape:
        log_probs = tf.nn.log_softmax(policy(state, training=True))
        chosen = tf.gather(log_probs, action, batch_dims=1)
        loss = tf.reduce_mean(chosen * advantage)  # WRONG
        loss = -tf.reduce_mean(chosen * advantage)  # RIGHT
    grads = tape.gradient(loss, policy.trainable_variables)
    optimizer.apply_gradients(zip(grads, policy.trainable_variables))
    rewards.append(reward.mean())
print("mean reward first and last ten:", np.mean(rewards[:10]), np.mean(rewards[-10:]))
