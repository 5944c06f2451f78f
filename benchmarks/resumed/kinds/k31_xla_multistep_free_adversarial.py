# jit_compile=True with steps_per_execution=4 and "free" adversarial training: a perturbation tensor lives in the model from batch to batch; a callback counts executions.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(310)

B, D = 32, 18


class FreeAT(keras.Model):
    def __init__(self, replays=2, eps=0.25):
        super().__init__()
        self.net = keras.Sequential(
            [layers.Dense(32, activation="relu"), layers.Dropout(0.1), layers.Dense(32, activation="relu"), layers.Dense(3)]
        )
        self.replays, self.eps = replays, eps
        self.delta = self.add_weight(shape=(B, D), initializer="zeros", trainable=False, name="delta")
        self.eps_now = self.add_weight(shape=(), initializer="zeros", trainable=False, name="eps_now")

    def call(self, x, training=False):
        return self.net(x, training=training)

    def train_step(self, data):
        x, y = data
        for _ in range(self.replays):
            with tf.GradientTape() as tape:
                d = tf.convert_to_tensor(self.delta)
                tape.watch(d)
                logits = self.net(x + d, training=True)
                loss = self.compute_loss(x=x, y=y, y_pred=logits)
            vs = self.net.trainable_variables
            g = tape.gradient(loss, vs + [d])
            self.optimizer.apply(g[:-1], vs)
            e = tf.convert_to_tensor(self.eps_now)
            self.delta.assign(tf.clip_by_value(d + 0.5 * e * tf.sign(g[-1]), -e, e))
        self.eps_now.assign(tf.minimum(self.eps, self.eps_now + 0.002))
        for m in self.metrics:
            m.update_state(loss) if m.name == "loss" else m.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}


class Executions(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.n = 0
        self.batches = []
        self.saved_delta = None

    def on_train_batch_end(self, batch, logs=None):
        self.n += 1
        self.batches.append(batch)
        if self.n % 9 == 0:
            # exchange with an old perturbation kept here
            now = np.asarray(self.model.delta)
            if self.saved_delta is not None:
                self.model.delta.assign(0.5 * now + 0.5 * self.saved_delta[::-1])
            self.saved_delta = now


rng = np.random.default_rng(0)
y = rng.integers(0, 3, 896)
X = rng.normal(0, 1, (896, D)).astype("float32")
X[:, :3] += 2.0 * np.eye(3, dtype="float32")[y]
X[:, 3:6] *= 1 + np.eye(3, dtype="float32")[y]

model = FreeAT()
model.compile(
    keras.optimizers.Adam(2e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
    steps_per_execution=4,
    jit_compile=True,
)
ex = Executions()
h = model.fit(X[:640], y[:640], batch_size=B, epochs=12, validation_data=(X[640:], y[640:]), callbacks=[ex], verbose=0)

res = {f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"o{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"h_{k}": np.array(v) for k, v in h.history.items()})
res["executions"] = np.array(ex.batches)
res["saved_delta"] = ex.saved_delta
res["pred"] = model.predict(X[640:650], verbose=0)
np.savez("result.npz", **res)
