"""A custom loop under MultiWorkerMirroredStrategy that saves by itself: `several_workers.py NAME [RANK STEP HOW] ...`.

At that step, the worker with that rank hangs, raises an exception or sends itself a signal, once for each NAME.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

STEPS, EVERY, EACH = 30, 5, 8
name = sys.argv[1]
faults = {(int(r), int(s)): how for r, s, how in zip(*[iter(sys.argv[2:])] * 3)}
config = json.loads(os.environ["TF_CONFIG"])
rank, workers = config["task"]["index"], len(config["cluster"]["worker"])
keras.utils.set_random_seed(1)
keras.config.set_floatx("float64")
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rng = np.random.default_rng(0)
x, y = rng.normal(size=(STEPS, workers, EACH, 4)), rng.normal(size=(STEPS, workers, EACH, 1))
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    step = tf.Variable(0, dtype="int64")
checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
manager = tf.train.CheckpointManager(checkpoint, name if rank == 0 else f"{name}-scratch-{rank}", max_to_keep=2)
checkpoint.restore(tf.train.latest_checkpoint(name))


@tf.function
def train(x, y):
    def in_replica(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((model(x) - y) ** 2) / (workers * EACH)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return strategy.run(in_replica, args=(x, y))


def struck():
    """Return how to fail, once in the worker and at the step that the command line names, or None."""
    how = faults.get((rank, at))
    if how is None or os.path.exists(f"{name}-struck-{at}"):
        return None
    Path(f"{name}-struck-{at}").write_text(f"{time.time()}\n")
    return how


at = began = int(step.numpy())
print("from step", at, flush=True)
while at < STEPS:
    how = struck()
    if how == "hang":
        time.sleep(300)  # hangs here
    elif how == "raise":
        raise ValueError("its own")
    elif how:
        os.kill(os.getpid(), getattr(signal, how))
    train(x[at, rank], y[at, rank])
    if at == began:
        Path(f"{name}-first-{rank}").write_text(f"{time.time()}\n")
    at += 1
    step.assign(at)
    if at % EVERY == 0:
        manager.save()
np.savez(f"{name}-{rank}.npz", *[np.array(each) for each in (*model.variables, *optimizer.variables)])
