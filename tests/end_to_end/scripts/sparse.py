"""Sparse gradients, a clipped norm, sample weights and a ragged last batch, in float64."""

import sys

import keras
import numpy as np

keras.backend.set_floatx("float64")
keras.utils.set_random_seed(1)
x, y = np.random.randint(0, 50, (512, 12)), np.random.randint(0, 3, 512)
layers = [keras.layers.Embedding(50, 16), keras.layers.LSTM(16), keras.layers.Dense(3, kernel_regularizer="l2")]
model = keras.Sequential([keras.Input((12,), dtype="int32"), *layers])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(1e-2, global_clipnorm=1.0), loss, jit_compile="--jit" in sys.argv)
model.fit(x, y, batch_size=100, epochs=3, verbose=0, sample_weight=np.linspace(0.1, 2, 512))
np.savez(sys.argv[1], **{f"v/{i}": np.asarray(v) for i, v in enumerate(model.variables + model.optimizer.variables)})
