"""Wide activations on a small GPU."""

import keras
import numpy as np
import tensorflow as tf

batch = 65536
layers = [keras.layers.Dense(256, "tanh") for _ in range(12)]
model = keras.Sequential([keras.Input((16,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"], jit_compile="auto")
x, y = np.zeros((2 * batch, 16), "float32"), np.zeros((2 * batch, 1), "float32")
history = model.fit(x, y, batch_size=batch, epochs=2, verbose=0)
(device,) = tf.config.list_logical_devices("GPU")
print(device.device_type, "jit", model.jit_compile, "epochs", len(history.history["loss"]))
