"""A model whose weights take most of the memory."""

import sys

import keras
import numpy as np

keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((500,)), *[keras.layers.Dense(500, "relu") for _ in range(8)]])
model.compile("adam", "mse", jit_compile=False)
x = np.random.default_rng(0).standard_normal((64, 500)).astype("float32")
model.fit(x, x, batch_size=16, epochs=2, verbose=0)
np.savez(sys.argv[1], **{f"v{n}": v.numpy() for n, v in enumerate([*model.variables, *model.optimizer.variables])})
