"""The scheduler multiplies the current learning rate by 0.1 to the power of the epoch; the decay compounds and training stops after one or two epochs."""

# finds: scheduled-rate

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(60)
rng = np.random.default_rng(60)
x = rng.uniform(-1, 1, size=(800, 5)).astype("float32")
y = (np.sin(3 * x[:, 0]) + x[:, 1] * x[:, 2]).astype("float32")
BASE = 0.005

def schedule(epoch, lr):
    return lr * 0.1 ** epoch  # WRONG
    return BASE * 0.8 ** epoch  # RIGHT


model = keras.Sequential([
    keras.Input((5,)),
    layers.Dense(64, activation="relu"),
    layers.Dense(64, activation="relu"),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(BASE), loss="mse", metrics=["mae"])
callback = keras.callbacks.LearningRateScheduler(schedule, verbose=1)
model.fit(x[:640], y[:640], epochs=5, batch_size=16, validation_data=(x[640:], y[640:]), callbacks=[callback], verbose=2)
print("last lr", float(model.optimizer.learning_rate), "val", model.evaluate(x[640:], y[640:], verbose=0))
