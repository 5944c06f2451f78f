"""One optimizer object updates two models, but an optimizer only knows the variables it first saw; make one optimizer for each model."""

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(46)
rng = np.random.default_rng(46)

def network(outputs):
    return keras.Sequential([
        keras.Input((4,)),
        layers.Dense(32, activation="tanh"),
        layers.Dense(outputs),
    ])


actor, critic = network(2), network(1)
actor_opt = keras.optimizers.Adam(1e-2)
critic_opt = actor_opt  # WRONG
critic_opt = keras.optimizers.Adam(1e-2)  # RIGHT
rewards = []
for episode in range(80):
    state = rng.normal(size=(64, 4)).astype("float32")
    action = tf.random.categorical(actor(state, training=False), 1)[:, 0]
    reward = ((state[:, 0] + state[:, 1] > 0) == (action.numpy() == 1)).astype("float32")
    with tf.GradientTape() as actor_tape, tf.GradientTape() as critic_tape:
        value = critic(state, training=True)[:, 0]
        critic_loss = tf.reduce_mean(tf.square(reward - value))
        log_prob = tf.nn.log_softmax(actor(state, training=True))
        chosen = tf.gather(log_prob, action, batch_dims=1)
        actor_loss = -tf.reduce_mean(chosen * tf.stop_gradient(reward - value))
    actor_opt.apply_gradients(zip(actor_tape.gradient(actor_loss, actor.trainable_variables), actor.trainable_variables))
    critic_opt.apply_gradients(zip(critic_tape.gradient(critic_loss, critic.trainable_variables), critic.trainable_variables))
    rewards.append(reward.mean())
print("reward first/last ten:", np.mean(rewards[:10]), np.mean(rewards[-10:]))
