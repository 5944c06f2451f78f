"""An autoencoder whose dataset contains only inputs."""

# finds: no-targets
import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.random((300, 20)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(x).batch(32)  # WRONG
dataset = tf.data.Dataset.from_tensor_slices((x, x)).batch(32)  # RIGHT
model = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(20, activation="sigmoid")]
)
model.compile("adam", "mse")
model.fit(dataset, epochs=3)
