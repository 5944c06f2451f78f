"""The warm-up divides by whole numbers with //, so the learning rate is 0 for the first four epochs and nothing is learned in them."""

# finds: scheduled-rate

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(28)
rng = np.random.default_rng(28)
X = rng.uniform(-1, 1, (1000, 4)).astype("float32")
y = (X[:, 0] * X[:, 1] + X[:, 2] ** 2).astype("float32")
base_lr, warmup = 5e-3, 5

def warm_up(epoch, lr):
    factor = min(1, (epoch + 1) // warmup)  # WRONG
    factor = min(1.0, (epoch + 1) / warmup)  # RIGHT
    return float(base_lr * factor)


inputs = keras.Input((4,))
h = layers.Dense(32, activation="gelu")(inputs)
h = layers.Dense(32, activation="gelu")(h)
model = keras.Model(inputs, layers.Dense(1)(h))
model.compile(optimizer=keras.optimizers.Adam(base_lr), loss="mse", metrics=["mae"])
scheduler = keras.callbacks.LearningRateScheduler(warm_up, verbose=0)
history = model.fit(X, y, epochs=7, batch_size=16, validation_split=0.2, callbacks=[scheduler], verbose=2)
print("rates:", history.history["learning_rate"])
