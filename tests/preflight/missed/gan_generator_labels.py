"""The generator is trained with label 0 (fake), so it learns to be recognized as fake; its fakes must be labelled 1 (real)."""

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(51)
rng = np.random.default_rng(51)
data = rng.multivariate_normal([2.0, -1.0], [[0.3, 0.1], [0.1, 0.2]], size=2000).astype("float32")
ds = tf.data.Dataset.from_tensor_slices(data).shuffle(2000).repeat(15).batch(64, drop_remainder=True)

gen = keras.Sequential([keras.Input((8,)), layers.Dense(32, activation="relu"), layers.Dense(2)])
disc = keras.Sequential([keras.Input((2,)), layers.Dense(32, activation="relu"), layers.Dense(1)])
g_opt, d_opt = keras.optimizers.Adam(2e-3, beta_1=0.5), keras.optimizers.Adam(2e-3, beta_1=0.5)
bce = keras.losses.BinaryCrossentropy(from_logits=True)

@tf.function
def train_step(real):
    noise = tf.random.normal((64, 8))
    with tf.GradientTape() as gt, tf.GradientTape() as dt:
        fake = gen(noise, training=True)
        real_score, fake_score = disc(real, training=True), disc(fake, training=True)
        d_loss = bce(tf.ones_like(real_score), real_score) + bce(tf.zeros_like(fake_score), fake_score)
        g_loss = bce(tf.zeros_like(fake_score), fake_score)  # WRONG
        g_loss = bce(tf.ones_like(fake_score), fake_score)  # RIGHT
    d_grads = dt.gradient(d_loss, disc.trainable_variables)
    g_grads = gt.gradient(g_loss, gen.trainable_variables)
    d_opt.apply_gradients(zip(d_grads, disc.trainable_variables))
    g_opt.apply_gradients(zip(g_grads, gen.trainable_variables))
    return d_loss, g_loss


for i, batch in enumerate(ds):
    d_loss, g_loss = train_step(batch)
    if i % 100 == 0:
        print(i, float(d_loss), float(g_loss))
made = gen(tf.random.normal((500, 8)), training=False).numpy()
print("real mean", data.mean(0), "made", made.mean(0))
