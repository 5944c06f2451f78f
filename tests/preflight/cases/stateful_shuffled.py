"""A stateful LSTM that receives shuffled windows."""

# finds: stateful-shuffled
import keras
import numpy as np

rng = np.random.default_rng(0)
series = np.sin(np.arange(650) / 9).astype("float32")
windows = np.lib.stride_tricks.sliding_window_view(series, 11)
x, y = windows[:640, :10, None], windows[:640, 10]
model = keras.Sequential(
    [keras.Input((10, 1), batch_size=32), keras.layers.LSTM(16, stateful=True), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(x, y, batch_size=32, epochs=3)  # WRONG
model.fit(x, y, batch_size=32, epochs=3, shuffle=False)  # RIGHT
