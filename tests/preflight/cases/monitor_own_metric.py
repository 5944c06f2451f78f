"""Keras cannot tell whether a custom metric should be high or low."""

# finds: monitor-without-direction
import keras
import numpy as np
from keras import ops


def within_half(y_true, y_pred):
    return ops.mean(ops.cast(ops.abs(y_true - y_pred) < 0.5, "float32"))


rng = np.random.default_rng(0)
x = rng.normal(size=(400, 6)).astype("float32")
y = x @ rng.normal(size=(6, 1)).astype("float32")
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=[within_half])
keep = keras.callbacks.ModelCheckpoint("best.keras", monitor="val_within_half", save_best_only=True)  # WRONG
keep = keras.callbacks.ModelCheckpoint("best.keras", "val_within_half", mode="max", save_best_only=True)  # RIGHT
model.fit(x, y, epochs=10, validation_split=0.2, callbacks=[keep])
