"""Early stopping used only to restore the best weights, and a metric inside a layer."""

import keras
import numpy as np


class Mean(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.size = keras.metrics.Mean(name="size")

    def call(self, x):
        self.size.update_state(keras.ops.mean(keras.ops.abs(x)))
        return x


rng = np.random.default_rng(0)
x = rng.normal(size=(600, 8)).astype("float32")
y = x[:, 0] * 2 - x[:, 1]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, activation="relu"), Mean(), keras.layers.Dense(1)])
model.compile("adam", "mse")
callbacks = [
    keras.callbacks.EarlyStopping(patience=10, restore_best_weights=True),
    keras.callbacks.ModelCheckpoint("/tmp/size.weights.h5", monitor="val_size", mode="min", save_best_only=True,
                                    save_weights_only=True),
]
model.fit(x, y, epochs=10, validation_split=0.2, callbacks=callbacks)
