# SGLD: gradient noise in an own train_step, cosine warm restarts kept in class attributes, posterior weight samples collected at cycle ends, shuffle="batch".
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(16)

x = np.sort(np.random.uniform(-3, 3, 512)).astype("float32")
y = (np.sin(2 * x) * x + np.random.normal(0, 0.3, 512)).astype("float32")
x, y = x[:, None], y[:, None]


class SGLD(keras.Model):
    temperature = 1e-6

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=pred)
        grads = tape.gradient(loss, self.trainable_variables)
        lr = tf.convert_to_tensor(self.optimizer.learning_rate)
        noisy = [g + tf.random.normal(tf.shape(g)) * tf.sqrt(2.0 * self.temperature / lr) for g in grads]
        self.optimizer.apply_gradients(zip(noisy, self.trainable_variables))
        for m in self.metrics:
            if m.name == "loss":
                m.update_state(loss)
            else:
                m.update_state(y, pred)
        return {m.name: m.result() for m in self.metrics}


class WarmRestarts(keras.callbacks.Callback):
    # state on the class, as seen in far too many notebooks
    cycle_length = 1
    step_in_cycle = 0
    cycles_done = 0
    samples = []

    def __init__(self, steps_per_epoch, lr_max=0.03):
        super().__init__()
        self.spe, self.lr_max = steps_per_epoch, lr_max

    def on_train_batch_begin(self, batch, logs=None):
        cls = type(self)
        frac = cls.step_in_cycle / (cls.cycle_length * self.spe)
        self.model.optimizer.learning_rate = self.lr_max * 0.5 * (1 + np.cos(np.pi * frac)) + 1e-4

    def on_train_batch_end(self, batch, logs=None):
        cls = type(self)
        cls.step_in_cycle += 1
        if cls.step_in_cycle == cls.cycle_length * self.spe:
            cls.step_in_cycle = 0
            cls.cycle_length *= 2
            cls.cycles_done += 1
            self.lr_max *= 0.9
            cls.samples.append([w.copy() for w in self.model.get_weights()])


inp = keras.Input((1,))
h = keras.layers.Dense(40, activation="tanh")(inp)
h = keras.layers.Dense(40, activation="tanh")(h)
model = SGLD(inp, keras.layers.Dense(1)(h))
model.compile(optimizer=keras.optimizers.SGD(0.03), loss="mse", metrics=["mae"])
wr = WarmRestarts(16)
hist = model.fit(x, y, batch_size=32, epochs=31, shuffle="batch", callbacks=[wr], verbose=0)

res = {f"w{i}": w for i, w in enumerate(model.get_weights())}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({k: np.array(v) for k, v in hist.history.items()})
grid = np.linspace(-3, 3, 25, dtype="float32")[:, None]
preds = []
for k, s in enumerate(WarmRestarts.samples):
    for i, w in enumerate(s):
        res[f"sample{k}_{i}"] = w
    model.set_weights(s)
    preds.append(model.predict(grid, verbose=0))
res["posterior"] = np.array(preds)
res["cls"] = np.array([WarmRestarts.cycle_length, WarmRestarts.step_in_cycle, WarmRestarts.cycles_done, wr.lr_max])
np.savez("result.npz", **res)
