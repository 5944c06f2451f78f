"""A custom loop under MultiWorkerMirroredStrategy: `loops_of_workers.py NAME KIND [RANK STEP HOW]`.

It is as in TensorFlow's guide ("plain"), takes its batches from oomph.steps ("steps"), guards its step as well
("guarded"), or scales its loss, which overflows in worker 1 in one of the steps ("scaled"). At a STEP, the worker with
that rank runs out of memory in its step, or sends itself a signal, once for each NAME.
"""

import os
import signal
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import oomph.testing

name, kind, fault = sys.argv[1], sys.argv[2], sys.argv[3:]
keras.config.set_floatx("float64")
keras.utils.set_random_seed(1)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
rank = strategy.cluster_resolver.task_id
rng = np.random.default_rng(0)
x, y = rng.normal(size=(160, 4)), rng.normal(size=(160, 1))
if kind == "scaled" and rank == 1:
    x[4 * 16 : 5 * 16] = 1e300
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.05)
    if kind == "scaled":
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=1024)
    optimizer.build(model.trainable_variables)
distributed = strategy.experimental_distribute_dataset(dataset)


def in_replica(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        errors = tf.reduce_sum((model(x, training=True) - y) ** 2, -1)
        loss = tf.nn.compute_average_loss(errors, global_batch_size=16)
        scaled = optimizer.scale_loss(loss)
    optimizer.apply_gradients(zip(tape.gradient(scaled, model.trainable_variables), model.trainable_variables))
    return loss


@tf.function
def train(batch):
    return strategy.reduce("SUM", strategy.run(in_replica, args=(batch,)), axis=None)


def strike(at):
    """Return True if the next step is to run out of memory."""
    if fault[:2] != [str(rank), str(at)] or os.path.exists(f"{name}-struck"):
        return False
    Path(f"{name}-struck").touch()
    if fault[2] == "memory":
        return True
    os.kill(os.getpid(), getattr(signal, fault[2]))


if kind == "guarded":
    train = oomph.guard(train)
if kind in ("steps", "guarded"):
    batches = oomph.steps(distributed, epochs=3, state=[model, optimizer])
else:
    batches = (batch for _ in range(3) for batch in distributed)
for batch in batches:
    full = strike(int(optimizer.iterations.numpy()))
    with oomph.testing.injecting(oomph.testing.OutOfMemory(samples=1) if full else oomph.testing.Injector()):
        train(batch)
state = [each.numpy() for each in (*model.variables, *optimizer.variables)]
np.savez(f"{name}-{rank}.npz", *state, *([optimizer.dynamic_scale.numpy()] if kind == "scaled" else []))
