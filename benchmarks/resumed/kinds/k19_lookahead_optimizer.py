# Own optimizer subclass (Lookahead around Adam-like moments) with extra slow variables and a Python attribute that a callback changes, which makes the train function anew.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(19)


class Lookahead(keras.optimizers.Optimizer):
    def __init__(self, learning_rate=1e-3, sync=5, alpha=0.5, b1=0.9, b2=0.99, name="lookahead", **kw):
        super().__init__(learning_rate=learning_rate, name=name, **kw)
        self.sync, self.alpha, self.b1, self.b2 = sync, alpha, b1, b2

    def build(self, variables):
        if self.built:
            return
        super().build(variables)
        self.m = [self.add_variable_from_reference(v, "m") for v in variables]
        self.v = [self.add_variable_from_reference(v, "v") for v in variables]
        self.slow = [self.add_variable_from_reference(v, "slow") for v in variables]
        for s, v in zip(self.slow, variables):
            s.assign(v)
        self.syncs = self.add_variable(shape=(), dtype="int32", name="syncs")

    def update_step(self, grad, var, lr):
        i = self._get_variable_index(var)
        m, v, slow = self.m[i], self.v[i], self.slow[i]
        lr = ops.cast(lr, var.dtype)
        t = ops.cast(self.iterations + 1, var.dtype)
        m.assign(self.b1 * m + (1 - self.b1) * grad)
        v.assign(self.b2 * v + (1 - self.b2) * ops.square(grad))
        step = lr * (m / (1 - self.b1**t)) / (ops.sqrt(v / (1 - self.b2**t)) + 1e-7)
        fast = var - step
        do = ops.cast(ops.equal((self.iterations + 1) % self.sync, 0), var.dtype)
        new_slow = slow + do * self.alpha * (fast - slow)
        slow.assign(new_slow)
        var.assign(do * new_slow + (1 - do) * fast)
        if i == 0:
            self.syncs.assign_add(ops.cast(do, "int32"))

    def get_config(self):
        c = super().get_config()
        c.update(sync=self.sync, alpha=self.alpha, b1=self.b1, b2=self.b2)
        return c


class LoosenAlpha(keras.callbacks.Callback):
    """The hyper-parameters are plain Python numbers baked into the graph: change and re-trace."""

    def __init__(self):
        super().__init__()
        self.changes = []

    def on_epoch_end(self, epoch, logs=None):
        if epoch % 3 == 2:
            opt = self.model.optimizer
            opt.alpha = min(0.9, opt.alpha + 0.1)
            opt.sync += 1
            self.model.make_train_function(force=True)
            self.changes.append((epoch, opt.alpha, opt.sync, logs["loss"]))


y = tf.random.uniform((880,), 0, 10, dtype=tf.int32).numpy()
proto = tf.random.normal((10, 30)).numpy()
X = proto[y] + tf.random.normal((880, 30), stddev=2.0).numpy()

model = keras.Sequential(
    [keras.Input((30,)), keras.layers.Dense(40, activation="elu"), keras.layers.Dropout(0.2), keras.layers.Dense(10)]
)
opt = Lookahead(5e-3, weight_decay=1e-3, clipvalue=0.5)
model.compile(opt, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
cb = LoosenAlpha()
h = model.fit(X, y, epochs=12, batch_size=40, validation_split=0.1, callbacks=[cb], verbose=0)

res = {f"var{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(opt.variables)})
res.update({f"hist_{k}": np.array(v) for k, v in h.history.items()})
res["changes"] = np.array(cb.changes)
res["attrs"] = np.array([opt.alpha, opt.sync])
res["pred"] = model.predict(X[:10], verbose=0)
np.savez("result.npz", **res)
