"""A model whose single samples are too large for a small device."""

import keras
import numpy as np

x, y = np.zeros((4, 10), "float32"), np.zeros((4, 1), "float32")
model = keras.Sequential(
    [
        keras.Input((10,)),
        keras.layers.RepeatVector(2_000_000),
        keras.layers.Activation("tanh"),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1),
    ]
)
model.compile("sgd", "mse", jit_compile=False)
model.fit(x, y, batch_size=1, verbose=0)
