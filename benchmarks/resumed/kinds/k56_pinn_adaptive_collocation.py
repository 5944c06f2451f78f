# Physics-informed network for a heat equation: collocation points in a tf.Variable are redrawn by a callback where the residual is large, learned loss weights by a second optimizer, weight-normalised dense layers.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(56)


class WNDense(keras.layers.Layer):
    """Dense with weight normalisation, g initialised from the first kernel."""

    def __init__(self, units, activation=None):
        super().__init__()
        self.units = units
        self.activation = keras.activations.get(activation)

    def build(self, shape):
        self.v = self.add_weight(shape=(shape[-1], self.units), initializer="glorot_normal", name="v")
        norm = np.linalg.norm(np.asarray(self.v), axis=0)
        self.g = self.add_weight(shape=(self.units,), initializer=keras.initializers.Constant(norm), name="g")
        self.b = self.add_weight(shape=(self.units,), initializer="zeros", name="b")

    def call(self, x):
        w = self.g * self.v / (tf.norm(self.v, axis=0) + 1e-7)
        return self.activation(tf.matmul(x, w) + self.b)


class PINN(keras.Model):
    def __init__(self, n_points):
        super().__init__()
        self.net = keras.Sequential([keras.Input((2,)), WNDense(20, "tanh"), WNDense(20, "tanh"), WNDense(1)])
        self.points = tf.Variable(tf.random.uniform((n_points, 2)), trainable=False)
        self.cursor = tf.Variable(0, trainable=False)
        self.log_lambda = tf.Variable([0.0, 0.0])
        self.lambda_opt = keras.optimizers.SGD(0.01)

    def call(self, tx):
        return self.net(tx)

    def residual(self, tx):
        t, x = tx[:, :1], tx[:, 1:]
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([t, x])
                u = self.net(tf.concat([t, x], 1))
            u_x = inner.gradient(u, x)
        u_t = inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        return u_t - 0.1 * u_xx

    def train_step(self, data):
        tx, u = data
        batch = tf.gather(self.points, tf.math.floormod(self.cursor + tf.range(64), tf.shape(self.points)[0]))
        self.cursor.assign_add(64)
        with tf.GradientTape(persistent=True) as tape:
            data_loss = tf.reduce_mean(tf.square(self.net(tx) - u))
            phys_loss = tf.reduce_mean(tf.square(self.residual(batch)))
            lam = tf.exp(self.log_lambda)
            loss = lam[0] * data_loss + lam[1] * phys_loss
            balance = loss - tf.reduce_sum(self.log_lambda)
        vs = self.net.trainable_variables
        self.optimizer.apply(tape.gradient(loss, vs), vs)
        self.lambda_opt.apply([tape.gradient(balance, self.log_lambda)], [self.log_lambda])
        return {"loss": loss, "data": data_loss, "phys": phys_loss}


class Resample(keras.callbacks.Callback):
    def __init__(self, every=2):
        super().__init__()
        self.every = every
        self.worst = []

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % self.every:
            return
        cand = np.random.rand(800, 2).astype("float32")
        r = np.abs(self.model.residual(tf.constant(cand)).numpy()[:, 0])
        n = self.model.points.shape[0]
        keep = self.model.points.numpy()[np.random.choice(n, n // 2, replace=False)]
        picked = cand[np.random.choice(800, n - n // 2, replace=False, p=r / r.sum())]
        self.model.points.assign(np.concatenate([keep, picked]))
        self.worst.append([r.max(), *cand[r.argmax()]])


# initial and boundary values
m = 300
tx = np.zeros((m, 2), "float32")
tx[:100, 1] = np.random.rand(100)
tx[100:, 0] = np.random.rand(200)
tx[200:, 1] = 1.0
u = np.where(tx[:, 0] == 0, np.sin(np.pi * tx[:, 1]), 0.0).astype("float32")[:, None]

model = PINN(400)
model.compile(optimizer=keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 100, 0.8)))
rs = Resample()
h = model.fit(tx, u, batch_size=25, epochs=20, callbacks=[rs], verbose=2)

grid = np.stack(np.meshgrid(np.linspace(0, 1, 6), np.linspace(0, 1, 6)), -1).reshape(-1, 2).astype("float32")
res = {f"w{i}": np.asarray(v) for i, v in enumerate(model.net.variables)}
res.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
res.update({f"lopt{i}": np.asarray(v) for i, v in enumerate(model.lambda_opt.variables)})
res.update({f"hist_{k}": np.array([float(q) for q in v]) for k, v in h.history.items()})
res.update(points=model.points.numpy(), cursor=model.cursor.numpy(), lam=model.log_lambda.numpy(), worst=np.array(rs.worst))
res["pred"] = np.asarray(model(grid))
np.savez("result.npz", **res)
