# Weather-like forecasting: timeseries_dataset_from_array with shuffle, an LSTM with recurrent dropout, ReduceLROnPlateau with cooldown plus EarlyStopping(restore_best_weights, start_from_epoch).
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(42)

# hourly "weather"
t = np.arange(1800)
temp = 10 * np.sin(2 * np.pi * t / 24) + 4 * np.sin(2 * np.pi * t / 300) + np.random.normal(0, 1.0, len(t))
pressure = 1000 + 0.1 * np.cumsum(np.random.normal(0, 1, len(t)))
wind = np.abs(np.random.normal(0, 3, len(t))) + 0.2 * np.roll(temp, 6)
raw = np.stack([temp, pressure, wind], 1).astype("float32")

n_train, n_val = 1300, 300
mean, std = raw[:n_train].mean(0), raw[:n_train].std(0)
data = (raw - mean) / std
target = data[:, 0]

past, future, step, batch = 24, 3, 3, 48
delay = past + future - 1


def make(start, end, shuffle):
    return keras.utils.timeseries_dataset_from_array(
        data[:-delay],
        targets=target[delay:],
        sequence_length=past // step,
        sampling_rate=step,
        batch_size=batch,
        start_index=start,
        end_index=end,
        shuffle=shuffle,
    )


train_ds = make(None, n_train, True)
val_ds = make(n_train, n_train + n_val, False)
test_ds = make(n_train + n_val, None, False)

inputs = keras.Input((past // step, 3))
x = layers.LSTM(12, recurrent_dropout=0.1, return_sequences=False)(inputs)
x = layers.Dropout(0.2)(x)
outputs = layers.Dense(1)(x)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.RMSprop(0.01), loss="mse", metrics=["mae"])

plateau = keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, cooldown=1, min_delta=0.01, min_lr=1e-4, verbose=1)
stop = keras.callbacks.EarlyStopping(monitor="val_mae", patience=4, restore_best_weights=True, start_from_epoch=2)
history = model.fit(
    train_ds,
    epochs=11,
    validation_data=val_ds,
    callbacks=[plateau, stop, keras.callbacks.TerminateOnNaN()],
    verbose=2,
)

np.savez(
    "result.npz",
    **{f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{"hist_" + k: np.array(v) for k, v in history.history.items()},
    epochs=np.array(history.epoch),
    stopped=np.array([stop.stopped_epoch, stop.best_epoch, stop.wait]),
    best=np.array(stop.best),
    plateau=np.array([plateau.best, plateau.wait, plateau.cooldown_counter]),
    test=np.array(model.evaluate(test_ds, verbose=0)),
    pred=model.predict(test_ds, verbose=0)[:40],
)
