# Center loss: an own layer with non-trainable class centres updated in call(), add_loss and metric objects inside layers, its weight a backend variable raised by a callback; a Normalization layer adapted first.
import os

import numpy as np
import keras
from keras import layers, ops

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(50)

K = 4
mu = np.random.normal(0, 2.0, (K, 9))
label = np.random.randint(0, K, 800)
x = (mu[label] + np.random.standard_t(4, (800, 9)) * 1.5).astype("float32")
onehot = np.eye(K, dtype="float32")[label]


class CenterLoss(layers.Layer):
    def __init__(self, classes, alpha=0.5, **kw):
        super().__init__(**kw)
        self.classes, self.alpha = classes, alpha
        self.weight = keras.Variable(0.0, trainable=False, name="center_weight")
        self.spread = keras.metrics.Mean(name="spread")

    def build(self, input_shape):
        dim = input_shape[0][-1]
        self.centers = self.add_weight(name="centers", shape=(self.classes, dim), initializer="random_normal", trainable=False)
        self.seen = self.add_weight(name="seen", shape=(self.classes,), initializer="zeros", trainable=False)

    def call(self, inputs, training=False):
        feat, y = inputs
        mine = ops.matmul(y, self.centers)
        dist = ops.sum(ops.square(feat - mine), axis=-1)
        if training:
            self.add_loss(self.weight * ops.mean(dist))
            n = ops.sum(y, axis=0)
            diff = ops.matmul(ops.transpose(y), ops.stop_gradient(mine - feat))
            self.centers.assign(self.centers - self.alpha * diff / (1.0 + n)[:, None])
            self.seen.assign(self.seen + n)
        self.spread.update_state(dist)
        return feat


class ActivityPenalty(layers.Layer):
    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def call(self, x):
        self.add_loss(self.rate * ops.mean(ops.abs(x)))
        return x


norm = layers.Normalization()
norm.adapt(x[:640])

xin = keras.Input((9,), name="x")
yin = keras.Input((K,), name="y")
h = layers.Dense(32, activation="relu")(norm(xin))
h = ActivityPenalty(1e-3)(h)
h = layers.GaussianDropout(0.1)(h)
feat = layers.Dense(3, name="feat")(h)
center = CenterLoss(K)
probs = layers.Dense(K, activation="softmax")(layers.LeakyReLU()(center([feat, yin])))
model = keras.Model([xin, yin], probs)
model.compile(keras.optimizers.Adam(4e-3), "categorical_crossentropy", metrics=["accuracy"])


class RaiseWeight(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        center.weight.assign(min(0.1, 0.01 * epoch))

    def on_epoch_end(self, epoch, logs=None):
        logs["center_move"] = float(ops.norm(center.centers))


h = model.fit(
    {"x": x[:640], "y": onehot[:640]},
    onehot[:640],
    batch_size=32,
    epochs=16,
    validation_data=({"x": x[640:], "y": onehot[640:]}, onehot[640:]),
    callbacks=[RaiseWeight()],
    verbose=2,
)

res = {f"var{i}": np.asarray(v) for i, v in enumerate(model.variables)}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"hist_{k}": np.array(v) for k, v in h.history.items()})
res["centers"], res["seen"], res["weight"] = (np.asarray(v) for v in (center.centers, center.seen, center.weight))
res["feat"] = keras.Model(xin, feat).predict(x[640:670], verbose=0)
np.savez("result.npz", **res)
