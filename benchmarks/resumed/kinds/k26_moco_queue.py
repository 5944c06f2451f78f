# Contrastive training (MoCo): momentum encoder, queue of keys in a tf.Variable with a pointer, two augmented views by a tf.random.Generator in the model, k-NN probe in a callback.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(26)

QUEUE, DIM = 192, 16


def encoder():
    return keras.Sequential(
        [
            keras.Input((32, 1)),
            layers.Conv1D(12, 5, strides=2, activation="relu"),
            layers.Conv1D(16, 5, strides=2, activation="relu"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(DIM),
            layers.UnitNormalization(),
        ]
    )


class MoCo(keras.Model):
    def __init__(self, m=0.95, tau=0.2):
        super().__init__()
        self.q, self.k = encoder(), encoder()
        self.k.set_weights(self.q.get_weights())
        self.k.trainable = False
        self.m, self.tau = m, tau
        self.rng = tf.random.Generator.from_seed(tf.random.uniform((), 0, 10**6, tf.int32))
        self.queue = tf.Variable(tf.math.l2_normalize(tf.random.normal((QUEUE, DIM)), 1), trainable=False)
        self.ptr = tf.Variable(0, trainable=False)
        self.loss_mean = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_mean]

    def call(self, x):
        return self.q(x)

    def view(self, x):
        b = tf.shape(x)[0]
        x = x * self.rng.uniform((b, 1, 1), 0.6, 1.4) + self.rng.normal(tf.shape(x), stddev=0.2)
        shift = self.rng.uniform((), -6, 7, dtype=tf.int32)
        mask = tf.cast(self.rng.uniform((b, 32, 1)) > 0.15, tf.float32)
        return tf.roll(x, shift, 1) * mask

    def train_step(self, x):
        x = x[0] if isinstance(x, tuple) else x
        keys = self.k(self.view(x), training=True)
        x1 = self.view(x)
        with tf.GradientTape() as tape:
            qs = self.q(x1, training=True)
            pos = tf.reduce_sum(qs * keys, 1, keepdims=True)
            neg = tf.matmul(qs, self.queue, transpose_b=True)
            logits = tf.concat([pos, neg], 1) / self.tau
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros(tf.shape(x)[0], tf.int32), logits)
            )
        self.optimizer.apply(tape.gradient(loss, self.q.trainable_variables), self.q.trainable_variables)
        for a, b in zip(self.k.weights, self.q.weights):
            a.assign(self.m * a + (1 - self.m) * b)
        n = tf.shape(keys)[0]
        where = tf.math.floormod(self.ptr + tf.range(n), QUEUE)
        self.queue.scatter_nd_update(where[:, None], keys)
        self.ptr.assign(tf.math.floormod(self.ptr + n, QUEUE))
        self.loss_mean.update_state(loss)
        return {"loss": self.loss_mean.result()}


class KNNProbe(keras.callbacks.Callback):
    def __init__(self, x, y, every=3):
        super().__init__()
        self.x, self.y, self.every = x, y, every
        self.scores = {}
        self.best = (-1.0, None)

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        ref = np.random.choice(len(self.x), 100, replace=False)
        z = self.model.predict(self.x, verbose=0)
        nn = ref[(z @ z[ref].T).argmax(1)]
        acc = float((self.y[nn] == self.y).mean())
        self.scores[epoch] = acc
        if acc > self.best[0]:
            self.best = (acc, self.model.q.get_weights())


t = np.arange(32)
y = np.random.randint(0, 4, 800)
waves = [np.sin(t / 2), np.sign(np.sin(t / 3)), (t % 9) / 4 - 1, np.cos(t / 5) ** 3]
X = np.stack([np.roll(waves[c], np.random.randint(32)) for c in y])[..., None].astype("float32")

model = MoCo()
model.compile(keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.02, 250), momentum=0.9))
probe = KNNProbe(X, y)
h = model.fit(X, epochs=15, batch_size=50, callbacks=[probe], verbose=0)

out = {f"q{i}": w for i, w in enumerate(model.q.get_weights())}
out.update({f"k{i}": w for i, w in enumerate(model.k.get_weights())})
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({f"best{i}": w for i, w in enumerate(probe.best[1])})
out["queue"], out["ptr"] = model.queue.numpy(), model.ptr.numpy()
out["rng"] = model.rng.state.numpy()
out["scores"] = np.array(sorted(probe.scores.items()))
out["loss"] = np.array(h.history["loss"])
out["pred"] = model.predict(X[:8], verbose=0)
np.savez("result.npz", **out)
