"""One Dense layer on normalised input, with a rate of 0.1, as in TensorFlow's first example of regression."""

import keras
import numpy as np

rng = np.random.default_rng(0)
power = rng.integers(50, 230, 400).astype("float32")
mpg = (45 - power / 6 + rng.normal(0, 2, 400)).astype("float32")
normalizer = keras.layers.Normalization(input_shape=[1], axis=None)
normalizer.adapt(power)
model = keras.Sequential([normalizer, keras.layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(learning_rate=0.1), loss="mean_absolute_error")
model.fit(power, mpg, epochs=100, verbose=0, validation_split=0.2)
