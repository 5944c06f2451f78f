"""Two fits under MultiWorkerMirroredStrategy, with fresh arrays in each epoch: `fits_of_workers.py NAME [RANK AT HOW]`.

At that step of both fits together, or at the "end" of the first one, the worker with that rank hangs, raises an
exception or sends itself a signal, once for each NAME. A step waits until all workers could have been checkpointed.
If NAME begins with "own", each worker shuffles data of its own: 10 steps in the first one, and 30 in the second.
"""

import os
import signal
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

name, fault = sys.argv[1], sys.argv[2:]
keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
rng = np.random.default_rng(0)
x, y = rng.normal(size=(240, 4)), rng.normal(size=(240, 1))
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse")


def strike():
    Path(f"{name}-struck").write_text(str(time.time()))
    if fault[2] == "hang":
        time.sleep(300)  # hangs here
    if fault[2] == "raise":
        raise ValueError("its own")
    os.kill(os.getpid(), getattr(signal, fault[2]))


class Striking(keras.callbacks.Callback):
    """Strikes once."""

    def is_struck(self, at):
        return fault[:2] == [str(rank), at] and not os.path.exists(f"{name}-struck")

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.08)
        if self.is_struck(str(model.optimizer.iterations.numpy())):
            strike()

    def on_train_end(self, logs=None):
        if self.is_struck("end"):
            time.sleep(2)  # the other worker saves its end state
            strike()


data = {"x": x, "y": y, "batch_size": 8}
if name.startswith("own"):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    own = tf.data.Dataset.from_tensor_slices((x, y)).take(40 + 80 * rank)
    data = {"x": own.shuffle(240).batch(8).with_options(options)}
losses = []
for epochs in (4, 1):
    losses += model.fit(**data, epochs=epochs, verbose=0, callbacks=[Striking()]).history["loss"]
np.savez(
    f"{name}-{rank}.npz", *[np.array(each) for each in (*model.variables, *model.optimizer.variables)], loss=losses
)
