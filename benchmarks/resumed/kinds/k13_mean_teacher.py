# Semi-supervised mean teacher: subclassed Model with a teacher net kept by EMA in train_step, tf.random noise, ramp-up by a step variable, labelled and unlabelled streams zipped.
import os

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(13)

n = 900
angle = np.random.rand(n) * np.pi
moon = np.random.randint(0, 2, n)
X = np.stack([np.cos(angle) + moon, np.where(moon, 0.5 - np.sin(angle), np.sin(angle))], 1)
X = (X + np.random.normal(0, 0.12, X.shape)).astype("float32")
lab = np.random.choice(n, 40, replace=False)

labelled = tf.data.Dataset.from_tensor_slices((X[lab], moon[lab].astype("int32"))).shuffle(40).repeat().batch(10)
unlabelled = tf.data.Dataset.from_tensor_slices(X).shuffle(n).batch(40, drop_remainder=True)
train = tf.data.Dataset.zip((labelled, unlabelled))


def mlp():
    return keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(2),
        ]
    )


class MeanTeacher(keras.Model):
    def __init__(self):
        super().__init__()
        self.student = mlp()
        self.teacher = mlp()
        self.teacher.trainable = False
        self.teacher.set_weights(self.student.get_weights())
        self.global_step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.loss_m = keras.metrics.Mean(name="loss")
        self.cons_m = keras.metrics.Mean(name="consistency")

    @property
    def metrics(self):
        return [self.loss_m, self.cons_m]

    def call(self, x, training=False):
        return self.teacher(x, training=False)

    def train_step(self, data):
        (xl, yl), xu = data
        self.global_step.assign_add(1)
        step = tf.cast(self.global_step, tf.float32)
        ramp = tf.exp(-5.0 * tf.square(1.0 - tf.minimum(step / 150.0, 1.0)))
        decay = tf.minimum(1.0 - 1.0 / (step + 1.0), 0.97)
        with tf.GradientTape() as tape:
            sup = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(yl, self.student(xl, training=True))
            )
            a = self.student(xu + tf.random.normal(tf.shape(xu), stddev=0.1), training=True)
            b = self.teacher(xu + tf.random.normal(tf.shape(xu), stddev=0.1), training=True)
            cons = tf.reduce_mean(tf.square(tf.nn.softmax(a) - tf.stop_gradient(tf.nn.softmax(b))))
            loss = sup + 5.0 * ramp * cons
        vs = self.student.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, vs), vs))
        for t, s in zip(self.teacher.weights, self.student.weights):
            if "seed" not in t.path:
                t.assign(decay * t + (1 - decay) * s)
        self.loss_m.update_state(loss)
        self.cons_m.update_state(cons)
        return {m.name: m.result() for m in self.metrics}


model = MeanTeacher()
model.compile(optimizer=keras.optimizers.Adam(0.01))
hist = model.fit(train, epochs=14, verbose=0)

out = {}
for i, v in enumerate(model.student.variables):
    out[f"student{i}"] = np.asarray(v)
for i, v in enumerate(model.teacher.variables):
    out[f"teacher{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    out[f"opt{i}"] = np.asarray(v)
out["step"] = model.global_step.numpy()
out.update({k: np.array(v) for k, v in hist.history.items()})
out["pred"] = model.predict(X[:30], verbose=0)
out["acc"] = np.mean(model.predict(X, verbose=0).argmax(1) == moon)
np.savez("result.npz", **out)
