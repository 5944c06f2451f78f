"""A subclassed model that returns logits."""

# finds: logits-as-probabilities
import keras
import numpy as np

rng = np.random.default_rng(0)


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.a = keras.layers.Dense(32, activation="relu")
        self.b = keras.layers.Dense(4)

    def call(self, x):
        return self.b(self.a(x)) * 3.0


x = rng.normal(size=(600, 8)).astype("float32")
y = np.digitize(x[:, 0] + x[:, 1], [-1.0, 0.0, 1.0])
model = Net()
model.compile("adam", "sparse_categorical_crossentropy")  # WRONG
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))  # RIGHT
model.fit(x, y, epochs=5, validation_split=0.2)
