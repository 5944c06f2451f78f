"""A branch that does not affect the output."""

# finds: no-gradient
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = keras.layers.Dense(32, activation="relu")
        self.side = keras.layers.Dense(32, activation="relu")
        self.b = keras.layers.Dense(4, activation="softmax")

    def call(self, x):
        main, side = self.a(x), self.side(x)
        return self.b(main + tf.stop_gradient(side))  # WRONG
        return self.b(main + side)  # RIGHT


x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = Net()
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=5, validation_split=0.2)
