"""Wasserstein GAN with gradient penalty: a critic without sigmoid, several critic steps for each generator step, losses that may be negative."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(72)
rng = np.random.default_rng(72)
angle = rng.uniform(0, np.pi, 1600)
moon = np.stack([np.cos(angle), np.sin(angle) - 0.5], 1) + rng.normal(0, 0.05, (1600, 2))
moon = moon.astype("float32")
data = tf.data.Dataset.from_tensor_slices(moon).shuffle(1600).repeat(5).batch(64, drop_remainder=True)

gen = keras.Sequential([keras.Input((4,)), layers.Dense(48, activation="relu"), layers.Dense(48, activation="relu"), layers.Dense(2)])
critic = keras.Sequential([keras.Input((2,)), layers.Dense(48, activation="leaky_relu"), layers.Dense(48, activation="leaky_relu"), layers.Dense(1)])


class WGAN(keras.Model):
    def __init__(self, gen, critic):
        super().__init__()
        self.gen, self.critic = gen, critic
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    def compile(self, d_opt, g_opt):
        super().compile()
        self.d_opt, self.g_opt = d_opt, g_opt

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def train_step(self, real):
        n = tf.shape(real)[0]
        for _ in range(5):
            fake = self.gen(tf.random.normal((n, 4)), training=True)
            mix = tf.random.uniform((n, 1))
            between = mix * real + (1 - mix) * fake
            with tf.GradientTape() as tape:
                with tf.GradientTape() as inner:
                    inner.watch(between)
                    score = self.critic(between, training=True)
                slope = tf.norm(inner.gradient(score, between) + 1e-8, axis=1)
                loss = tf.reduce_mean(self.critic(fake)) - tf.reduce_mean(self.critic(real))
                loss += 10.0 * tf.reduce_mean((slope - 1.0) ** 2)
            self.d_opt.apply_gradients(zip(tape.gradient(loss, self.critic.trainable_variables), self.critic.trainable_variables))
        with tf.GradientTape() as tape:
            g_loss = -tf.reduce_mean(self.critic(self.gen(tf.random.normal((n, 4)), training=True)))
        self.g_opt.apply_gradients(zip(tape.gradient(g_loss, self.gen.trainable_variables), self.gen.trainable_variables))
        self.d_loss.update_state(loss)
        self.g_loss.update_state(g_loss)
        return {m.name: m.result() for m in self.metrics}


model = WGAN(gen, critic)
model.compile(keras.optimizers.Adam(1e-3, beta_1=0.0, beta_2=0.9), keras.optimizers.Adam(1e-3, beta_1=0.0, beta_2=0.9))
model.fit(data, epochs=3, verbose=2)
print("real", moon.mean(0), "made", gen(tf.random.normal((500, 4))).numpy().mean(0))
