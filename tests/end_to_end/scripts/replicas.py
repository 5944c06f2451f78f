"""Two replicas of a MirroredStrategy, trained twice: `replicas.py OUT.npz [--restores]`.

With --restores, the script starts from the newest saved model that it finds, as in Keras' guide to distribution.
"""

import glob
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
keras.utils.set_random_seed(1)
RESTORES = "--restores" in sys.argv
rng = np.random.default_rng(0)
x, y = rng.normal(size=(256, 8)).astype("float32"), rng.integers(0, 3, 256)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


class Pace(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)


def new_model():
    layers = [keras.layers.Dense(16, "relu"), keras.layers.BatchNormalization(), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    weighted = [keras.metrics.SparseCategoricalAccuracy("weighted")]  # has variables before Keras counts them
    model.compile("adam", loss, metrics=["accuracy"], weighted_metrics=weighted, jit_compile=False)
    return model


def make_or_restore_model():
    saved = sorted(glob.glob("saved/*.keras"), key=os.path.getmtime)
    return keras.models.load_model(saved[-1]) if saved and RESTORES else new_model()


os.makedirs("saved", exist_ok=True)
with strategy.scope():
    model = make_or_restore_model()
callbacks = [Pace(), *([keras.callbacks.ModelCheckpoint("saved/{epoch}.keras")] if RESTORES else [])]
data = tf.data.Dataset.from_tensor_slices((x, y, rng.uniform(size=256))).shuffle(256).batch(32)
losses = model.fit(data, epochs=2, verbose=0, callbacks=callbacks).history
losses = [losses, model.fit(data, epochs=4, verbose=0, callbacks=callbacks).history]
out = {f"{key}{number}": values for number, history in enumerate(losses) for key, values in history.items()}
for index, variable in enumerate([*model.variables, *model.optimizer.variables]):
    replicas = getattr(getattr(variable, "_value", None), "values", None) or [variable]
    out |= {f"v{index}/{replica}": np.asarray(value) for replica, value in enumerate(replicas)}
np.savez(sys.argv[1], **out)
