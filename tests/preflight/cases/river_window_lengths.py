"""There is one window more than there are targets because the loop goes one step too far, so x and y differ in length."""

# finds: unequal-lengths

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(42)
rng = np.random.default_rng(42)
t = np.arange(900)
level = np.sin(t / 9) + 0.3 * np.sin(t / 3.1) + rng.normal(0, 0.05, 900)
level = ((level - level[:700].mean()) / level[:700].std()).astype("float32")
LOOKBACK = 20

def make_windows(series):
    last = len(series) - LOOKBACK + 1  # WRONG
    last = len(series) - LOOKBACK  # RIGHT
    x = [series[i:i + LOOKBACK] for i in range(last)]
    y = series[LOOKBACK:]
    return np.array(x)[..., None], y


x_train, y_train = make_windows(level[:700])
x_test, y_test = make_windows(level[700:])
model = keras.Sequential([
    keras.Input((LOOKBACK, 1)),
    layers.Conv1D(16, 5, activation="relu"),
    layers.Flatten(),
    layers.Dense(16, activation="relu"),
    layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="mse", metrics=["mae"])
model.fit(x_train, y_train, epochs=3, batch_size=16, verbose=2)
print("test", model.evaluate(x_test, y_test, verbose=0), "variance", y_test.var())
