"""Knowledge distillation: a trained, frozen teacher and a small student that learns from labels and from softened teacher logits."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(79)
rng = np.random.default_rng(79)
y = rng.integers(0, 5, 1500)
x = (rng.normal(0, 0.9, (5, 20))[y] + rng.normal(0, 0.9, (1500, 20))).astype("float32")
x_train, y_train, x_val, y_val = x[:1200], y[:1200], x[1200:], y[1200:]
ce = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Distiller(keras.Model):
    def __init__(self, student, teacher, temperature=3.0, alpha=0.3):
        super().__init__()
        self.student, self.teacher = student, teacher
        self.temperature, self.alpha = temperature, alpha
        self.teacher.trainable = False

    def call(self, inputs, training=None):
        return self.student(inputs, training=training)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        hard = super().compute_loss(x, y, y_pred, sample_weight)
        soft_t = tf.nn.softmax(self.teacher(x, training=False) / self.temperature)
        log_s = tf.nn.log_softmax(y_pred / self.temperature)
        soft = -tf.reduce_mean(tf.reduce_sum(soft_t * log_s, axis=-1)) * self.temperature ** 2
        return self.alpha * hard + (1 - self.alpha) * soft


teacher = keras.Sequential([keras.Input((20,)), layers.Dense(96, activation="relu"), layers.Dropout(0.2), layers.Dense(5)])
teacher.compile(keras.optimizers.Adam(0.004), loss=ce, metrics=["accuracy"])
teacher.fit(x_train, y_train, epochs=3, batch_size=32, validation_data=(x_val, y_val), verbose=2)
student = keras.Sequential([keras.Input((20,)), layers.Dense(12, activation="relu"), layers.Dense(5)])
model = Distiller(student, teacher)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=ce, metrics=["accuracy"])
model.fit(x_train, y_train, epochs=3, batch_size=32, validation_data=(x_val, y_val), verbose=2)
print("val", model.evaluate(x_val, y_val, verbose=0))
