"""The function of the LearningRateScheduler returns nothing during the first epochs since its only return is inside the if."""

# finds: scheduled-rate

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(27)
rng = np.random.default_rng(27)
centers = rng.normal(0, 2, (5, 6))
y = rng.integers(0, 5, 900)
X = (centers[y] + rng.normal(size=(900, 6))).astype("float32")

def schedule(epoch, lr):
    if epoch >= 2:
        return lr * 0.5
    return lr  # RIGHT
    print("keeping", lr)  # WRONG


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.norm = layers.BatchNormalization()
        self.hidden = layers.Dense(32, activation="relu")
        self.head = layers.Dense(5, activation="softmax")

    def call(self, x, training=None):
        return self.head(self.hidden(self.norm(x, training=training)))


model = Net()
model.compile(optimizer=keras.optimizers.RMSprop(5e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(X, y, validation_split=0.2, epochs=3, batch_size=16, verbose=2,
          callbacks=[keras.callbacks.LearningRateScheduler(schedule)])
