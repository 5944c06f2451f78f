"""An LSTM that returns the whole sequence, for one target."""

# finds: target-shape, step-fails
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(300, 10, 4)).astype("float32")
y = x[:, -1, 0]
model = keras.Sequential(
    [
        keras.Input((10, 4)),
        keras.layers.LSTM(16, return_sequences=True),  # WRONG
        keras.layers.LSTM(16),  # RIGHT
        keras.layers.Dense(1),
    ]
)
model.compile("adam", "mse", metrics=["mae"])
model.fit(x, y[:, None], epochs=3)
