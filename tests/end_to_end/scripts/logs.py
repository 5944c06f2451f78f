"""Logs for TensorBoard and as CSV, and finally prints what TensorBoard will read."""

import importlib.util
import pathlib
import time

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.util.event_pb2 import Event

if importlib.util.find_spec("tensorboard") is None:  # it only adds what the web page needs to know about a number
    tf.summary.scalar = lambda name, data, step=None: tf.summary.write(name, tf.cast(data, tf.float32), step)


class Own(keras.callbacks.Callback):
    """The user's own numbers, in the files of Keras' callback."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)
        tf.summary.scalar("own", batch)


keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(128, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
logs = [keras.callbacks.TensorBoard("board", histogram_freq=0, update_freq=1), keras.callbacks.CSVLogger("log.csv")]
model.fit(x, x[:, :1], batch_size=16, epochs=5, verbose=0, validation_data=(x, x[:, :1]), callbacks=[*logs, Own()])

for file in sorted(pathlib.Path("board").glob("*/events*")):
    for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
        event = Event.FromString(record)
        for value in event.summary.value:
            if value.tensor.dtype == tf.float32.as_datatype_enum:
                print(file.parent.name, value.tag, event.step, float(tf.make_ndarray(value.tensor)))
