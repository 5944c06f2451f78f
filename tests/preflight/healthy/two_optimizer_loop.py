"""Healthy: wide and deep model in a custom loop, each part with its own optimizer, one persistent tape."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(110)
rng = np.random.default_rng(110)
X = rng.normal(size=(1500, 12)).astype("float32")
y = (X[:, :3].sum(1) + 2 * X[:, 3] * X[:, 4] > 0).astype("float32")[:, None]
train = tf.data.Dataset.from_tensor_slices((X[:1200], y[:1200])).shuffle(1200).batch(30)

wide = keras.Sequential([keras.Input((12,)), layers.Dense(1)])
deep = keras.Sequential([keras.Input((12,)), layers.Dense(64, activation="relu"), layers.Dense(32, activation="relu"), layers.Dense(1)])
wide_opt, deep_opt = keras.optimizers.Ftrl(0.1), keras.optimizers.Adam(3e-3)
bce = keras.losses.BinaryCrossentropy(from_logits=True)
acc = keras.metrics.BinaryAccuracy(threshold=0.0)


@tf.function
def step(xb, yb):
    with tf.GradientTape(persistent=True) as tape:
        logits = wide(xb, training=True) + deep(xb, training=True)
        loss = bce(yb, logits)
    for part, opt in ((wide, wide_opt), (deep, deep_opt)):
        opt.apply_gradients(zip(tape.gradient(loss, part.trainable_variables), part.trainable_variables))
    acc.update_state(yb, logits)
    return loss


for epoch in range(4):
    acc.reset_state()
    losses = [float(step(xb, yb)) for xb, yb in train]
    print(f"epoch {epoch}: loss {np.mean(losses):.3f}, accuracy {float(acc.result()):.3f}")
test = (wide(X[1200:], training=False) + deep(X[1200:], training=False)).numpy() > 0
print("test accuracy", np.mean(test == (y[1200:] > 0.5)))
