# Sharpness-aware minimisation with run_eagerly=True: Python counters, dicts of lists and if-branches inside train_step decide what every step does.
import os
import random

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(20)


class SAM(keras.Model):
    def __init__(self, classes, **kw):
        super().__init__(**kw)
        self.d1 = keras.layers.Dense(24, activation="relu")
        self.d2 = keras.layers.Dense(classes)
        self.rho = 0.05
        self.step_no = 0
        self.skipped = 0
        self.class_losses = {}
        self.old_grad = None

    def call(self, x):
        return self.d2(self.d1(x))

    def grads(self, x, y, w):
        with tf.GradientTape() as tape:
            per = tf.nn.sparse_softmax_cross_entropy_with_logits(y, self(x))
            loss = tf.reduce_mean(per * w)
        return loss, per, tape.gradient(loss, self.trainable_variables)

    def train_step(self, data):
        x, y = data
        self.step_no += 1
        # harder classes of the last time weigh more
        means = {c: np.mean(v[-20:]) for c, v in self.class_losses.items()}
        norm = np.mean(list(means.values())) if means else 1.0
        w = np.array([means.get(int(c), norm) / norm for c in y.numpy()], "float32")

        loss, per, g = self.grads(x, y, w)
        for c, l in zip(y.numpy(), per.numpy()):
            self.class_losses.setdefault(int(c), []).append(float(l))

        if self.step_no % 2 == 0 or random.random() < 0.2:  # full SAM step
            norm = tf.linalg.global_norm(g) + 1e-12
            eps = [self.rho * gi / norm for gi in g]
            for v, e in zip(self.trainable_variables, eps):
                v.assign_add(e)
            _, _, g2 = self.grads(x, y, w)
            for v, e in zip(self.trainable_variables, eps):
                v.assign_sub(e)
            self.old_grad = [b - a for a, b in zip(g, g2)]
            g = g2
        else:  # re-use the last sharpness direction
            self.skipped += 1
            if self.old_grad is not None:
                g = [a + 0.7 * b for a, b in zip(g, self.old_grad)]
        if self.step_no % 50 == 0:
            self.rho *= 1.2
        self.optimizer.apply_gradients(zip(g, self.trainable_variables))
        for m in self.metrics:
            m.update_state(loss) if m.name == "loss" else m.update_state(y, self(x))
        return {m.name: m.result() for m in self.metrics}


n = 660
labels = np.array([random.choice([0, 0, 0, 1, 1, 2]) for _ in range(n)], "int32")
X = np.random.standard_t(4, (n, 9)).astype("float32")
X[np.arange(n), labels] += 1.8

model = SAM(3)
model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"], run_eagerly=True)
hist = model.fit(X[:600], labels[:600], batch_size=20, epochs=8, validation_data=(X[600:], labels[600:]), verbose=0)

out = {f"w{i}": w for i, w in enumerate(model.get_weights())}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
out.update({f"old_grad{i}": g.numpy() for i, g in enumerate(model.old_grad)})
out.update({f"class{c}": np.array(v) for c, v in model.class_losses.items()})
out["counters"] = np.array([model.step_no, model.skipped, model.rho])
out["pred"] = model.predict(X[600:610], verbose=0)
np.savez("result.npz", **out)
