# GAN trained by alternating fits of two models (discriminator, then generator through the frozen discriminator).
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(2020)

LATENT, BATCH, ROUNDS = 5, 32, 12


def real_samples(n):
    a = tf.random.uniform((n, 1)) * 2 * np.pi
    r = 1.0 + tf.random.normal((n, 1), stddev=0.05)
    return tf.concat([r * tf.cos(a), r * tf.sin(a)], axis=1).numpy()


def noise(n):
    return np.random.normal(size=(n, LATENT)).astype("float32")


generator = keras.Sequential([layers.Input((LATENT,)), layers.Dense(16, activation="relu"),
                              layers.BatchNormalization(), layers.Dense(2)], name="generator")
discriminator = keras.Sequential([layers.Input((2,)), layers.Dense(32), layers.LeakyReLU(negative_slope=0.2),
                                  layers.Dropout(0.2), layers.Dense(1, activation="sigmoid")], name="discriminator")
discriminator.compile(optimizer=keras.optimizers.Adam(2e-3, beta_1=0.5), loss="binary_crossentropy", metrics=["accuracy"])

# the generator learns through a frozen copy that gets the discriminator's weights every round
frozen = keras.models.clone_model(discriminator)
frozen.trainable = False
z = keras.Input((LATENT,))
gan = keras.Model(z, frozen(generator(z)), name="gan")
gan.compile(optimizer=keras.optimizers.Adam(1e-3, beta_1=0.5), loss="binary_crossentropy")

d_loss, g_loss, d_acc = [], [], []
fixed = noise(20)
snapshots = []
for r in range(ROUNDS):
    real = real_samples(128)
    fake = generator.predict(noise(128), verbose=0)
    x = np.concatenate([real, fake])
    y = np.concatenate([np.full((128, 1), 0.9), np.zeros((128, 1))])
    hd = discriminator.fit(x, y, batch_size=BATCH, epochs=1, verbose=0)
    frozen.set_weights(discriminator.get_weights())
    hg = gan.fit(noise(192), np.ones((192, 1)), batch_size=BATCH, epochs=1, verbose=0)
    d_loss += hd.history["loss"]
    d_acc += hd.history["accuracy"]
    g_loss += hg.history["loss"]
    if r % 4 == 3:
        snapshots.append(generator.predict(fixed, verbose=0))
        generator.save_weights(f"gen_{r:03d}.weights.h5")
    print(f"round {r}: d {d_loss[-1]:.4f} g {g_loss[-1]:.4f}")

out = {"d_loss": np.array(d_loss), "g_loss": np.array(g_loss), "d_acc": np.array(d_acc), "snapshots": np.array(snapshots)}
for m in (generator, discriminator, gan):
    for i, v in enumerate(m.variables):
        out[f"{m.name}_v{i}"] = np.asarray(v)
for m in (discriminator, gan):
    for i, v in enumerate(m.optimizer.variables):
        out[f"{m.name}_o{i}"] = np.asarray(v)
old = keras.models.clone_model(generator)
old.load_weights("gen_003.weights.h5")
out["old"] = old.predict(fixed, verbose=0)
np.savez("result.npz", **out)
