# Knowledge distillation: a teacher is fitted, then a student through a model with its own train_step, then a student from scratch to compare.
import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(8)

rng = np.random.default_rng(0)
centers = rng.normal(scale=1.5, size=(5, 30))
y = rng.integers(0, 5, size=800)
x = (centers[y] + rng.normal(scale=1.8, size=(800, 30))).astype("float32")
x_train, y_train, x_test, y_test = x[:640], y[:640], x[640:], y[640:]

teacher = keras.Sequential([layers.Input((30,)), layers.Dense(96, activation="relu"), layers.Dropout(0.3),
                            layers.Dense(96, activation="relu"), layers.Dense(5)], name="teacher")


def make_student(name):
    return keras.Sequential([layers.Input((30,)), layers.Dense(8, activation="relu"), layers.Dense(5)], name=name)


class Distiller(keras.Model):
    def __init__(self, student, teacher):
        super().__init__()
        self.teacher = teacher
        self.student = student
        self.loss_tracker = keras.metrics.Mean(name="distillation_loss")

    def compile(self, optimizer, metrics, student_loss_fn, alpha=0.3, temperature=4.0):
        super().compile(optimizer=optimizer, metrics=metrics)
        self.student_loss_fn = student_loss_fn
        self.alpha = alpha
        self.temperature = temperature
        self.kl = keras.losses.KLDivergence()

    def call(self, x, training=False):
        return self.student(x, training=training)

    def train_step(self, data):
        x, y = data
        soft = tf.nn.softmax(self.teacher(x, training=False) / self.temperature)
        with tf.GradientTape() as tape:
            logits = self.student(x, training=True)
            hard = self.student_loss_fn(y, logits)
            dist = self.kl(soft, tf.nn.softmax(logits / self.temperature)) * self.temperature ** 2
            loss = self.alpha * hard + (1 - self.alpha) * dist
        grads = tape.gradient(loss, self.student.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.student.trainable_variables))
        self.loss_tracker.update_state(loss)
        for m in self.metrics:
            if m.name not in ("loss", "distillation_loss"):
                m.update_state(y, logits)
        return {m.name: m.result() for m in self.metrics if m.name != "loss"}


ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
teacher.compile(optimizer="adam", loss=ce, metrics=["accuracy"])
ht = teacher.fit(x_train, y_train, epochs=5, batch_size=64, validation_data=(x_test, y_test), verbose=2)
teacher.trainable = False

student = make_student("student")
scratch = keras.models.clone_model(student)

distiller = Distiller(student, teacher)
distiller.compile(optimizer=keras.optimizers.Adam(5e-3), metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")], student_loss_fn=ce)
hd = distiller.fit(x_train, y_train, epochs=6, batch_size=64, verbose=2)

scratch.compile(optimizer=keras.optimizers.Adam(5e-3), loss=ce, metrics=["accuracy"])
hs = scratch.fit(x_train, y_train, epochs=6, batch_size=64, validation_data=(x_test, y_test), verbose=2)

student.compile(loss=ce, metrics=["accuracy"])
print("teacher", teacher.evaluate(x_test, y_test, verbose=0))
print("distilled", student.evaluate(x_test, y_test, verbose=0))
print("scratch", scratch.evaluate(x_test, y_test, verbose=0))

r = {}
for n, h in (("t", ht), ("d", hd), ("s", hs)):
    for k, v in h.history.items():
        r[f"hist_{n}_{k}"] = np.array([float(q) for q in v])
for m in (teacher, student, scratch):
    for i, v in enumerate(m.get_weights()):
        r[f"{m.name}_{i}"] = v
    r[f"pred_{m.name}"] = m.predict(x_test[:10], verbose=0)
for n, m in (("t", teacher), ("d", distiller), ("s", scratch)):
    for i, v in enumerate(m.optimizer.variables):
        r[f"opt_{n}_{i}"] = np.asarray(v)
for i, v in enumerate(distiller.variables):
    r[f"distiller_{i}"] = np.asarray(v)
np.savez("result.npz", **r)
