"""Q-learning on a small corridor with replay memory and a slowly updated target network (its weights are not trained)."""
import random
from collections import deque
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(74)
N = 6


def net():
    return keras.Sequential([keras.Input((N,)), layers.Dense(32, activation="relu"), layers.Dense(2)])


q, target = net(), net()
target.set_weights(q.get_weights())
target.trainable = False
opt = keras.optimizers.Adam(0.005)
huber = keras.losses.Huber()
memory = deque(maxlen=2000)
eye = np.eye(N, dtype="float32")


@tf.function
def learn(s, a, r, s2, done):
    goal = r + 0.9 * (1.0 - done) * tf.reduce_max(target(s2, training=False), axis=1)
    with tf.GradientTape() as tape:
        chosen = tf.reduce_sum(q(s, training=True) * tf.one_hot(a, 2), axis=1)
        loss = huber(goal, chosen)
    opt.apply_gradients(zip(tape.gradient(loss, q.trainable_variables), q.trainable_variables))
    return loss


step, epsilon = 0, 1.0
for episode in range(50):
    pos = random.randrange(N - 1)
    for _ in range(20):
        a = random.randrange(2) if random.random() < epsilon else int(np.argmax(q(eye[None, pos]).numpy()))
        new = max(0, pos - 1) if a == 0 else pos + 1
        done = new == N - 1
        memory.append((eye[pos], a, 1.0 if done else -0.02, eye[new], float(done)))
        pos, step = new, step + 1
        if len(memory) >= 64:
            s, acts, r, s2, d = map(np.array, zip(*random.sample(memory, 32)))
            loss = learn(s, acts.astype("int32"), r.astype("float32"), s2, d.astype("float32"))
        if step % 25 == 0:
            target.set_weights(q.get_weights())
        if done:
            break
    epsilon = max(0.1, epsilon * 0.95)
print("loss", float(loss), "right chosen", q(eye[:N - 1]).numpy().argmax(1))
