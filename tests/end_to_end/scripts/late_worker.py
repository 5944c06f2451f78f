"""Training under MultiWorkerMirroredStrategy in which one worker is late: `late_worker.py fit|loop RANK WHAT SECONDS`.

WHAT is late is its `data`, its `step` (before its gradients are ready), or its own code `between` two steps.
"""

import json
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

kind, late_rank, what, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
config = json.loads(os.environ["TF_CONFIG"])
rank, workers = config["task"]["index"], len(config["cluster"]["worker"])
is_late = rank == late_rank
PACE, RUNS_FOR = 0.05, 15.0
"""The least time of a step, and how long to train, in seconds."""
keras.utils.set_random_seed(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
steps = int(RUNS_FOR / (PACE + seconds * (late_rank < workers)))
rng = np.random.default_rng(0)
steps //= workers if kind == "fit" else 1  # `fit` divides each batch among the workers
x, y = rng.normal(size=(steps * 8, 4)).astype("float32"), rng.normal(size=(steps * 8, 1)).astype("float32")


def pause(length):
    def wait(value):
        time.sleep(length)
        return value

    return wait


class Paced(keras.layers.Layer):
    """A layer that takes its time, as a slow device does."""

    def call(self, inputs):
        length = PACE + seconds * (is_late and what == "step")
        slow = tf.numpy_function(pause(length), [inputs], inputs.dtype, stateful=True)
        return inputs + 0.0 * tf.stop_gradient(tf.reshape(slow, tf.shape(inputs)))


with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), Paced(), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer, "mse")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True)
if is_late and what == "data":
    data = data.map(
        lambda a, b: (tf.ensure_shape(tf.numpy_function(pause(2 * PACE + 2 * seconds), [a], a.dtype), a.shape), b)
    )
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
data = data.with_options(options)


class Between(keras.callbacks.Callback):
    """The script's own code between two steps."""

    def on_train_batch_end(self, batch, logs=None):
        time.sleep(seconds * (is_late and what == "between"))


@tf.function
def train(x, y):
    def in_replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return strategy.run(in_replica, args=(x, y))


if kind == "fit":
    model.fit(data, epochs=1, verbose=0, callbacks=[Between()])
else:
    for a, b in data:
        train(a, b)
        Between().on_train_batch_end(0)
