"""The labels are one-hot encoded, but sparse_categorical_crossentropy expects integers; use categorical_crossentropy."""

# finds: one-hot-labels-sparse-loss

import numpy as np
import keras
from keras import layers
from keras.utils import to_categorical

keras.utils.set_random_seed(3)
rng = np.random.default_rng(3)
NUM = 6
proto = rng.uniform(0, 255, size=(NUM, 16, 16))
y = rng.integers(0, NUM, 900)
x = np.clip(proto[y] + rng.normal(0, 50, (900, 16, 16)), 0, 255).astype("uint8")

x_train = x[:700].reshape(-1, 16, 16, 1).astype("float32") / 255
x_test = x[700:].reshape(-1, 16, 16, 1).astype("float32") / 255
y_train = to_categorical(y[:700], NUM)
y_test = to_categorical(y[700:], NUM)

model = keras.Sequential([
    keras.Input((16, 16, 1)),
    layers.Conv2D(16, (3, 3), activation="relu"),
    layers.MaxPooling2D((2, 2)),
    layers.Conv2D(32, (3, 3), activation="relu"),
    layers.Flatten(),
    layers.Dense(NUM, activation="softmax"),
])
loss = "sparse_categorical_crossentropy"  # WRONG
loss = "categorical_crossentropy"  # RIGHT
model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
model.fit(x_train, y_train, batch_size=32, epochs=3, validation_data=(x_test, y_test), verbose=2)
print("test", model.evaluate(x_test, y_test, verbose=0))
