"""Two replicas share each batch, and the optimizer has slots."""

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(1)
x = np.random.normal(size=(512, 8)).astype("float32")
y = x @ np.random.normal(size=(8, 1)).astype("float32")
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(512, seed=1).batch(32).prefetch(tf.data.AUTOTUNE)
model.fit(data, epochs=3, verbose=0)
