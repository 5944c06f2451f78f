# Knowledge distillation in two fits: the student's train_step holds a frozen teacher, and a callback holds its own endless tf.data iterator of transfer batches and an annealed temperature.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(25)

rng = np.random.default_rng(0)
mu = rng.normal(0, 1.3, (5, 3, 12))
c = rng.integers(0, 5, 1500)
X = (mu[c, rng.integers(0, 3, 1500)] + rng.normal(0, 1.1, (1500, 12))).astype("float32")
Xtr, ytr, Xun, Xte, yte = X[:500], c[:500], X[500:1200], X[1200:], c[1200:]


def net(*units):
    return keras.Sequential(
        [keras.Input((12,))] + [keras.layers.Dense(u, activation="relu") for u in units] + [keras.layers.Dense(5)]
    )


ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
teacher = net(64, 64)
teacher.compile("adam", ce, metrics=["accuracy"])
h_teacher = teacher.fit(Xtr, ytr, epochs=8, batch_size=25, verbose=0)


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.student, self.teacher = student, teacher
        self.teacher.trainable = False
        self.temperature = tf.Variable(8.0, trainable=False)
        self.alpha = 0.1  # Python number in the graph

    def call(self, x, training=False):
        return self.student(x, training=training)

    def train_step(self, data):
        x, y = data
        t = self.temperature
        soft = tf.nn.softmax(self.teacher(x, training=False) / t)
        with tf.GradientTape() as tape:
            logits = self.student(x, training=True)
            hard = self.compute_loss(y=y, y_pred=logits)
            kd = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(soft, logits / t)) * t * t
            loss = self.alpha * hard + (1 - self.alpha) * kd
        v = self.student.trainable_variables
        self.optimizer.apply(tape.gradient(loss, v), v)
        for m in self.metrics:
            m.update_state(loss) if m.name == "loss" else m.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics}


class Transfer(keras.callbacks.Callback):
    """After every few batches one step on an unlabelled batch, pulled from an own iterator."""

    def __init__(self, x):
        super().__init__()
        self.it = iter(tf.data.Dataset.from_tensor_slices(x).shuffle(300).repeat().batch(20))
        self.count = 0
        self.gaps = []

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count % 4 == 0:
            xb = next(self.it)
            pt = tf.nn.softmax(self.model.teacher(xb))
            s = self.model.student
            with tf.GradientTape() as tape:
                gap = tf.reduce_mean(tf.keras.losses.kld(pt, tf.nn.softmax(s(xb))))
            g = tape.gradient(gap, s.trainable_variables)
            for v, gi in zip(s.trainable_variables, g):
                v.assign_sub(0.05 * gi)
            self.gaps.append(float(gap))

    def on_epoch_end(self, epoch, logs=None):
        self.model.temperature.assign(tf.maximum(1.0, self.model.temperature * 0.8))
        if epoch % 3 == 2:
            self.model.alpha += 0.15
            self.model.make_train_function(force=True)


student = net(10)
distiller = Distiller(student, teacher)
distiller.compile(optimizer=keras.optimizers.Adam(3e-3), loss=ce, metrics=["accuracy"])
tr = Transfer(Xun)
h_student = distiller.fit(Xtr, ytr, epochs=10, batch_size=25, validation_data=(Xte, yte), callbacks=[tr], verbose=0)

res = {f"teacher{i}": w for i, w in enumerate(teacher.get_weights())}
res.update({f"student{i}": w for i, w in enumerate(student.get_weights())})
res.update({f"topt{i}": np.asarray(v) for i, v in enumerate(teacher.optimizer.variables)})
res.update({f"sopt{i}": np.asarray(v) for i, v in enumerate(distiller.optimizer.variables)})
res.update({f"ht_{k}": np.array(v) for k, v in h_teacher.history.items()})
res.update({f"hs_{k}": np.array(v) for k, v in h_student.history.items()})
res["gaps"] = np.array(tr.gaps)
res["next_batch"] = next(tr.it).numpy()
res["state"] = np.array([distiller.temperature.numpy(), distiller.alpha, tr.count])
res["pred"] = distiller.predict(Xte[:10], verbose=0)
np.savez("result.npz", **res)
