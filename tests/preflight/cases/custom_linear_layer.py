"""The layer makes its weights with tf.Variable, which Keras 3 does not track: they are never trained and never saved; use add_weight."""

# finds: untracked-variables

import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(15)
rng = np.random.default_rng(15)
X = rng.normal(size=(1000, 20)).astype("float32")
y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] * 0.5 + rng.normal(0, 0.05, 1000)
y = y.astype("float32")

class Projection(layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.w = tf.Variable(tf.random.normal((shape[-1], self.units), stddev=0.2), trainable=True)  # WRONG
        self.b = tf.Variable(tf.zeros(self.units), trainable=True)  # WRONG
        self.w = self.add_weight(shape=(shape[-1], self.units), initializer="glorot_uniform")  # RIGHT
        self.b = self.add_weight(shape=(self.units,), initializer="zeros")  # RIGHT

    def call(self, x):
        return tf.nn.relu(tf.matmul(x, self.w) + self.b)


model = keras.Sequential([keras.Input((20,)), Projection(64), Projection(32), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="mse", metrics=["mae"])
model.fit(X, y, validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("trainable weights:", len(model.trainable_weights))
