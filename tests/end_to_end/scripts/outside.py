"""Trains in small batches that fit, validates, evaluates and predicts in large ones that do not."""

import sys

import keras
import numpy as np

keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(5000, 16)), rng.normal(size=(5000, 4))
model = keras.Sequential([keras.Input((16,)), *[keras.layers.Dense(1024, "tanh") for _ in range(4)]])
model.add(keras.layers.Dense(4))
model.compile("sgd", "mse", metrics=["mae", keras.metrics.R2Score()], jit_compile=False)
history = model.fit(
    x[:512], y[:512], batch_size=64, epochs=1, verbose=0, validation_data=(x, y), validation_batch_size=4096
).history
np.savez(
    sys.argv[1],
    evaluated=model.evaluate(x, y, batch_size=4096, verbose=0),
    predicted=model.predict(x, batch_size=4096, verbose=0),
    **{key: np.array(values) for key, values in history.items()},
    **{f"v{i}": np.array(v) for i, v in enumerate(model.variables)},
)
