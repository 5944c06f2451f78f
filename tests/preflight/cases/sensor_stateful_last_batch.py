# finds: odd-batch-fails
import keras
import numpy as np

BATCH = 32
rng = np.random.default_rng(6)
series = np.cumsum(rng.normal(size=1010)).astype("float32")
series = (series - series.mean()) / series.std()
windows = np.stack([series[start : start + 10] for start in range(1000)])[..., np.newaxis]
following = series[10:1010]
used = len(windows)  # WRONG
used = len(windows) // BATCH * BATCH  # RIGHT
model = keras.Sequential(
    [keras.Input(batch_shape=(BATCH, 10, 1)), keras.layers.LSTM(8, stateful=True), keras.layers.Dense(1)]
)
model.compile("adam", "mse")
model.fit(windows[:used], following[:used], batch_size=BATCH, epochs=5, shuffle=False, verbose=0)
