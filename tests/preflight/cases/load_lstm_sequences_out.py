"""The last LSTM still returns the whole sequence, so the output is (batch, 24, 1) and is silently broadcast against one target per window."""

# finds: target-shape

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(13)
rng = np.random.default_rng(13)
hours = np.arange(1000)
load = np.sin(2 * np.pi * hours / 24) + 0.4 * np.sin(2 * np.pi * hours / 7) + rng.normal(0, 0.05, 1000)
split = 750
mean, std = load[:split].mean(), load[:split].std()
load = ((load - mean) / std).astype("float32")

def windows(series, width=24):
    xs = np.stack([series[i:i + width] for i in range(len(series) - width)])
    return xs[..., None], series[width:][:, None]


x_train, y_train = windows(load[:split])
x_val, y_val = windows(load[split:])

model = keras.Sequential()
model.add(keras.Input((24, 1)))
model.add(layers.LSTM(16, return_sequences=True))
model.add(layers.LSTM(16, return_sequences=True))  # WRONG
model.add(layers.LSTM(16))  # RIGHT
model.add(layers.Dense(1))
model.compile(loss="mse", optimizer=keras.optimizers.Adam(0.005))
model.fit(x_train, y_train, epochs=3, batch_size=16, validation_data=(x_val, y_val), verbose=2)
print("val mse", model.evaluate(x_val, y_val, verbose=0), "variance", y_val.var())
