"""The generator's loss is used to update the discriminator's weights, so the generator is never trained."""

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(42)
rng = np.random.default_rng(42)
real_data = (rng.normal(size=(1024, 4)) * 0.2 + np.array([1.0, -1.0, 2.0, 0.5])).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(real_data).shuffle(1024).batch(32, drop_remainder=True)

generator = keras.Sequential([keras.Input((6,)), layers.Dense(32, activation="relu"), layers.Dense(4)])
discriminator = keras.Sequential([keras.Input((4,)), layers.Dense(32, activation="leaky_relu"), layers.Dense(1)])
bce = keras.losses.BinaryCrossentropy(from_logits=True)
g_opt, d_opt = keras.optimizers.Adam(2e-3, beta_1=0.5), keras.optimizers.Adam(2e-3, beta_1=0.5)

@tf.function
def step(real):
    noise = tf.random.normal((32, 6))
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fake = generator(noise, training=True)
        real_out, fake_out = discriminator(real, training=True), discriminator(fake, training=True)
        g_loss = bce(tf.ones_like(fake_out), fake_out)
        d_loss = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
    g_vars = discriminator.trainable_variables  # WRONG
    g_vars = generator.trainable_variables  # RIGHT
    d_vars = discriminator.trainable_variables
    g_opt.apply_gradients(zip(g_tape.gradient(g_loss, g_vars), g_vars))
    d_opt.apply_gradients(zip(d_tape.gradient(d_loss, d_vars), d_vars))
    return g_loss, d_loss


for epoch in range(8):
    losses = [[float(v) for v in step(batch)] for batch in dataset]
    print(epoch, "g_loss, d_loss:", np.mean(losses, axis=0))
samples = generator(tf.random.normal((500, 6)), training=False).numpy()
print("mean of the samples (should come near 1, -1, 2, 0.5):", samples.mean(axis=0).round(2))
