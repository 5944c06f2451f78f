"""The target of each window is its own first value because the targets array was not shifted by the window length; the model forecasts something it already sees."""

# finds: target-in-features

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(7)
rng = np.random.default_rng(7)
t = np.arange(1500)
series = np.sin(t / 9.0) + 0.5 * np.sin(t / 31.0) + rng.normal(0, 0.1, t.size)
train_raw, val_raw = series[:1200], series[1200:]
mean, std = train_raw.mean(), train_raw.std()
train_scaled = ((train_raw - mean) / std).astype("float32")[:, None]
val_scaled = ((val_raw - mean) / std).astype("float32")[:, None]
window = 24

def windows(data, shuffle):
    targets = data  # WRONG
    targets = data[window:]  # RIGHT
    return keras.utils.timeseries_dataset_from_array(
        data, targets, sequence_length=window, batch_size=32, shuffle=shuffle)

train_ds = windows(train_scaled, True)
val_ds = windows(val_scaled, False)

model = keras.Sequential([
    keras.Input((window, 1)),
    layers.GRU(24),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(5e-3), loss="mse", metrics=["mae"])
model.fit(train_ds, validation_data=val_ds, epochs=3, verbose=2)
inputs = np.stack([val_scaled[i:i + window] for i in range(200)])
true_next = np.stack([val_scaled[i + window] for i in range(200)])
print("real next-step mse:", np.mean((model.predict(inputs, verbose=0) - true_next) ** 2))
