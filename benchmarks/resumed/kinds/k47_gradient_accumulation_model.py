# Gradient accumulation in an own train_step (accumulator tf.Variables and a step counter, tf.cond), where the steps of an epoch are no multiple of the accumulation; global clipping by a running norm.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(47)

(n, d) = (760, 16)
x = np.random.laplace(size=(n, d)).astype("float32")
w_true = np.random.normal(size=(d, 5))
y = np.argmax(x @ w_true + np.random.gumbel(size=(n, 5)), axis=1)


class GAModel(keras.Model):
    def __init__(self, n_gradients, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.n_gradients = tf.constant(n_gradients, dtype=tf.int32)
        self.n_acum_step = tf.Variable(0, dtype=tf.int32, trainable=False)
        self.norm_avg = tf.Variable(1.0, trainable=False)
        self.gradient_accumulation = [
            tf.Variable(tf.zeros(v.shape), trainable=False) for v in self.trainable_variables
        ]

    def train_step(self, data):
        self.n_acum_step.assign_add(1)
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x, y, y_pred)
        gradients = tape.gradient(loss, self.trainable_variables)
        for acc, g in zip(self.gradient_accumulation, gradients):
            acc.assign_add(g / tf.cast(self.n_gradients, tf.float32))
        tf.cond(tf.equal(self.n_acum_step, self.n_gradients), self.apply_accu_gradients, lambda: None)
        for m in self.metrics:
            if m.name == "loss":
                m.update_state(loss)
            else:
                m.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}

    def apply_accu_gradients(self):
        norm = tf.linalg.global_norm(self.gradient_accumulation)
        self.norm_avg.assign(0.9 * self.norm_avg + 0.1 * norm)
        scale = tf.minimum(1.0, 1.2 * self.norm_avg / (norm + 1e-6))
        self.optimizer.apply_gradients(
            zip([g * scale for g in self.gradient_accumulation], self.trainable_variables)
        )
        self.n_acum_step.assign(0)
        for acc in self.gradient_accumulation:
            acc.assign(tf.zeros_like(acc))


inputs = keras.Input((d,))
h = keras.layers.Dense(40, activation="elu")(inputs)
h = keras.layers.Dropout(0.2)(h)
h = keras.layers.Dense(24, activation="elu")(h)
outputs = keras.layers.Dense(5)(h)
model = GAModel(4, inputs=inputs, outputs=outputs)
model.compile(
    optimizer=keras.optimizers.Adam(0.01),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
model.optimizer.build(model.trainable_variables)
# 600 / 20 = 30 batches per epoch: 7 updates and 2 left over
history = model.fit(x[:600], y[:600], batch_size=20, epochs=13, validation_data=(x[600:], y[600:]), verbose=2)

res = {f"w{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"acc{i}": v.numpy() for i, v in enumerate(model.gradient_accumulation)})
res.update({f"hist_{k}": np.array(v) for k, v in history.history.items()})
res["counter"] = np.array(model.n_acum_step.numpy())
res["norm_avg"] = np.array(model.norm_avg.numpy())
res["pred"] = model.predict(x[600:616], verbose=0)
np.savez("result.npz", **res)
