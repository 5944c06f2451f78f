# Own loss object with EMA state in variables (loss balancing, focal gamma moved by a callback) and own metrics that are never reset or remember the best value of all epochs.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(30)


class BalancedFocal(keras.losses.Loss):
    """Class weights from a running confusion of what the net gets wrong."""

    def __init__(self, n_classes, gamma=2.0, decay=0.97):
        super().__init__(name="balanced_focal")
        self.gamma = tf.Variable(gamma, trainable=False)
        self.err = tf.Variable(tf.ones((n_classes,)), trainable=False)
        self.calls = tf.Variable(0, trainable=False)
        self.decay = decay
        self.n = n_classes

    def call(self, y_true, y_pred):
        y = tf.one_hot(tf.cast(tf.reshape(y_true, [-1]), tf.int32), self.n)
        p = tf.reduce_sum(y * y_pred, 1)
        per_class = tf.math.divide_no_nan(tf.reduce_sum(y * (1 - p)[:, None], 0), tf.reduce_sum(y, 0))
        self.err.assign(self.decay * self.err + (1 - self.decay) * per_class)
        self.calls.assign_add(1)
        w = self.err / tf.reduce_mean(self.err)
        return -tf.reduce_sum(y * w, 1) * tf.pow(1 - p, self.gamma) * tf.math.log(p + 1e-7)


class LifetimeConfusion(keras.metrics.Metric):
    """Is not reset at epoch boundaries."""

    def __init__(self, n, **kw):
        super().__init__(name="lifetime_acc", **kw)
        self.mat = self.add_weight(shape=(n, n), initializer="zeros", name="mat")
        self.n = n

    def update_state(self, y_true, y_pred, sample_weight=None):
        m = tf.math.confusion_matrix(tf.reshape(y_true, [-1]), tf.argmax(y_pred, 1), self.n, dtype=tf.float32)
        self.mat.assign(self.mat * 0.999 + m)

    def result(self):
        m = tf.convert_to_tensor(self.mat)
        return tf.linalg.trace(m) / tf.maximum(tf.reduce_sum(m), 1.0)

    def reset_state(self):
        pass


class BestSoFar(keras.metrics.Mean):
    def __init__(self):
        super().__init__(name="best_conf")
        self.best = self.add_variable(shape=(), initializer="zeros", name="best")
        self.history = []

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(tf.reduce_max(y_pred, 1))

    def reset_state(self):
        # called by fit at the beginning of every epoch and evaluation
        if float(self.count) > 0:
            r = float(self.total) / float(self.count)
            self.history.append(r)
            self.best.assign(max(r, float(self.best)))
        super().reset_state()


class MoveGamma(keras.callbacks.Callback):
    def __init__(self, loss):
        super().__init__()
        self.loss = loss
        self.velocity = 0.0
        self.gammas = []

    def on_epoch_end(self, epoch, logs=None):
        # driven by the life-long metric and the best confidence
        self.velocity = 0.5 * self.velocity + 0.3 * (logs["lifetime_acc"] - 0.75)
        best = float([m for m in self.model.metrics if m.name == "compile_metrics"][0].metrics[1].best)
        self.loss.gamma.assign(tf.clip_by_value(self.loss.gamma - self.velocity - 0.1 * (best - 0.65), 0.0, 4.0))
        self.gammas.append(self.loss.gamma.numpy())


n = 900
y = np.random.choice(4, n, p=[0.6, 0.25, 0.1, 0.05])
X = np.random.randn(n, 8).astype("float32")
X[np.arange(n), y] += 1.5
X[np.arange(n), y + 4] -= 1.0

loss = BalancedFocal(4)
life, best = LifetimeConfusion(4), BestSoFar()
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(24, activation="relu"), keras.layers.Dense(4, activation="softmax")])
model.compile(keras.optimizers.Ftrl(0.1), loss, metrics=[life, best])
mg = MoveGamma(loss)
h = model.fit(X[:720], y[:720], batch_size=24, epochs=12, validation_data=(X[720:], y[720:]), callbacks=[mg], verbose=0)

np.savez(
    "result.npz",
    **{f"w{i}": w for i, w in enumerate(model.get_weights())},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{f"hist_{k}": np.array(v) for k, v in h.history.items()},
    gamma=np.array(mg.gammas),
    err=loss.err.numpy(),
    calls=loss.calls.numpy(),
    mat=np.asarray(life.mat),
    best=np.asarray(best.best),
    best_history=np.array(list(best.history)),
    velocity=np.array(mg.velocity),
    pred=model.predict(X[720:730], verbose=0),
)
