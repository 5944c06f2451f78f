"""The pixels are scaled with // instead of /, so all pixels below 255 become 0 and the pictures are black."""

# finds: constant-input, duplicates

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(83)
rng = np.random.default_rng(83)
y = rng.integers(0, 4, 1000)
X = rng.integers(20, 80, (1000, 16, 16, 3))
for i, k in enumerate(y):
    X[i, 4 * k:4 * k + 4, :, :] += 120
X = X.astype("uint8")
x_train, y_train, x_test, y_test = X[:800], y[:800], X[800:], y[800:]

x_train, x_test = x_train.astype("float32") // 255, x_test.astype("float32") // 255  # WRONG
x_train, x_test = x_train.astype("float32") / 255, x_test.astype("float32") / 255  # RIGHT

class SmallCNN(keras.Model):
    def __init__(self, classes):
        super().__init__()
        self.conv1 = layers.Conv2D(16, 3, activation="relu")
        self.pool = layers.MaxPooling2D()
        self.conv2 = layers.Conv2D(16, 3, activation="relu")
        self.flat = layers.Flatten()
        self.head = layers.Dense(classes, activation="softmax")

    def call(self, x):
        return self.head(self.flat(self.conv2(self.pool(self.conv1(x)))))


model = SmallCNN(4)
model.compile(optimizer=keras.optimizers.Adam(2e-3), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, validation_split=0.2, epochs=3, batch_size=16, verbose=2)
print("test:", model.evaluate(x_test, y_test, verbose=0))
