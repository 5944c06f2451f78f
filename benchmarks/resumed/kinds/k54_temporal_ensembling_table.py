# Learning with wrong labels by temporal ensembling: a table with one row of running predictions per training sample in a tf.Variable, scattered into by train_step through sample ids, targets bias-corrected by a callback.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(54)

N, K = 768, 3
g = np.random.default_rng(54 if os.environ.get("UNSEEDED") != "1" else None)
angle = g.uniform(0, 2 * np.pi, N)
clean = g.integers(0, K, N)
radius = clean + 1 + g.normal(0, 0.25, N)
feats = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype("float32")
noisy = np.where(g.random(N) < 0.35, g.integers(0, K, N), clean)


class TemporalEnsemble(keras.Model):
    def __init__(self, net, n, k, momentum=0.6):
        super().__init__()
        self.net = net
        self.momentum = momentum
        self.Z = tf.Variable(tf.zeros((n, k)), trainable=False)
        self.targets = tf.Variable(tf.zeros((n, k)), trainable=False)
        self.ramp = tf.Variable(0.0, trainable=False)
        self.ce = keras.metrics.Mean(name="ce")
        self.agree = keras.metrics.Mean(name="agree")

    @property
    def metrics(self):
        return [self.ce, self.agree]

    def call(self, x, training=False):
        return self.net(x, training=training)

    def train_step(self, data):
        (x, ids), y = data
        with tf.GradientTape() as tape:
            p = self.net(x, training=True)
            ce = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, p))
            t = tf.gather(self.targets, ids)
            cons = tf.reduce_mean(tf.reduce_sum(tf.square(p - t), -1))
            loss = ce + self.ramp * cons
        self.optimizer.apply(tape.gradient(loss, self.net.trainable_variables), self.net.trainable_variables)
        z = self.momentum * tf.gather(self.Z, ids) + (1 - self.momentum) * p
        self.Z.scatter_update(tf.IndexedSlices(z, ids))
        self.ce.update_state(ce)
        self.agree.update_state(tf.cast(tf.argmax(p, -1) == tf.argmax(t, -1), tf.float32))
        return {"ce": self.ce.result(), "agree": self.agree.result(), "loss": loss}


class Targets(keras.callbacks.Callback):
    def __init__(self, warm=10, top=4.0):
        super().__init__()
        self.warm, self.top = warm, top
        self.clean_acc = []

    def on_epoch_end(self, epoch, logs=None):
        m = self.model
        m.targets.assign(m.Z / (1.0 - m.momentum ** (epoch + 1)))
        m.ramp.assign(self.top * np.exp(-5 * (1 - min(1.0, epoch / self.warm)) ** 2))
        self.clean_acc.append(float(np.mean(m.targets.numpy().argmax(1) == clean)))


net = keras.Sequential(
    [
        keras.Input((2,)),
        keras.layers.GaussianNoise(0.1),
        keras.layers.Dense(48, activation="relu"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(48, activation="relu"),
        keras.layers.Dense(K, activation="softmax"),
    ]
)
model = TemporalEnsemble(net, N, K)
model.compile(optimizer=keras.optimizers.Adam(6e-3))
cb = Targets()
ds = tf.data.Dataset.from_tensor_slices(((feats, np.arange(N)), noisy)).shuffle(N).batch(32, drop_remainder=True)
hist = model.fit(ds, epochs=16, callbacks=[cb], verbose=2)
print("targets that are right:", cb.clean_acc[0], "->", cb.clean_acc[-1])

save = {f"net{i}": w for i, w in enumerate(net.get_weights())}
save.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
save.update({f"seed{i}": np.asarray(v) for i, v in enumerate(net.non_trainable_variables)})
save.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
save.update(Z=model.Z.numpy(), targets=model.targets.numpy(), ramp=model.ramp.numpy(), clean_acc=np.array(cb.clean_acc))
save["pred"] = net.predict(feats[:20], verbose=0)
np.savez("result.npz", **save)
