"""A time series forecast from windows, in their order, with early stopping."""

import keras
import numpy as np

rng = np.random.default_rng(0)
series = np.sin(np.arange(3000) / 24 * 2 * np.pi) * 5 + 15 + rng.normal(0, 1, 3000)
series = (series - series[:2000].mean()) / series[:2000].std()
windows = np.lib.stride_tricks.sliding_window_view(series, 49).astype("float32")
x, y = windows[:, :48, None], windows[:, 48]
inputs = keras.layers.Input(shape=(48, 1))
lstm = keras.layers.LSTM(32)(inputs)
outputs = keras.layers.Dense(1)(lstm)
model = keras.Model(inputs=inputs, outputs=outputs)
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.001), loss="mse", metrics=["mae"])
model.fit(
    x[:2000],
    y[:2000],
    epochs=10,
    validation_data=(x[2100:], y[2100:]),
    callbacks=[
        keras.callbacks.EarlyStopping(monitor="val_loss", min_delta=0, patience=5),
        keras.callbacks.ModelCheckpoint(
            "/tmp/forecast.weights.h5", monitor="val_loss", save_weights_only=True, save_best_only=True
        ),
    ],
)
