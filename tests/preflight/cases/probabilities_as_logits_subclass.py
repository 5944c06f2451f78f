"""A subclassed model that applies the softmax itself."""

# finds: probabilities-as-logits
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = keras.layers.Dense(32, activation="relu")
        self.b = keras.layers.Dense(4)

    def call(self, x):
        scores = self.b(self.a(x))
        scores = tf.nn.softmax(scores)  # WRONG
        return scores


x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = Net()
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=5, validation_split=0.2)
