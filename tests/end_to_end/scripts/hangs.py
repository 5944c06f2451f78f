"""Stops making progress once, in one of many ways: `hangs.py OUT.npz HOW`; "never" disables this."""

import ctypes
import pathlib
import sys
import threading
import time

import keras
import numpy as np
import tensorflow as tf

HOW = sys.argv[2]
keras.utils.set_random_seed(1)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(160, 8)).astype("float32"), rng.normal(size=(160, 1)).astype("float32")


def once():
    """Return True only the first time, over all attempts."""
    try:
        pathlib.Path("hung").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def wait_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def wait_in_cpp():
    tf.queue.FIFOQueue(1, [tf.float32]).dequeue()


def hold_the_gil():
    ctypes.PyDLL(None).sleep(1000)


def spin():
    while True:
        pass


WAYS = {
    "sleep": lambda: time.sleep(1000),
    "lock": wait_for_a_lock,
    "cpp": wait_in_cpp,
    "gil": hold_the_gil,
    "spin": spin,
}


class Hangs(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        if batch == 6 and int(self.model.optimizer.iterations) > 10 and HOW in WAYS and once():
            WAYS[HOW]()

    def on_test_batch_end(self, batch, logs=None):
        if HOW == "validation" and int(self.model.optimizer.iterations) > 20 and once():
            time.sleep(1000)


def samples():
    for number in range(160):
        if HOW == "generator" and number == 90 and once():
            wait_for_a_lock()
        yield x[number], y[number]


model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
if HOW.startswith("loop"):

    @tf.function
    def step(images, targets):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(images) - targets) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for epoch in range(3):
        for number in range(10):
            step(x[16 * number : 16 * number + 16], y[16 * number : 16 * number + 16])
            if HOW == "loop" and epoch == 1 and number == 6 and once():
                time.sleep(1000)
    if HOW == "loop-over":
        time.sleep(12)  # longer than any limit, but the loop has ended
else:
    model.compile(optimizer, "mse", jit_compile=False)
    spec = (tf.TensorSpec((8,)), tf.TensorSpec((1,)))
    data = (
        tf.data.Dataset.from_generator(samples, output_signature=spec)
        if HOW == "generator"
        else (tf.data.Dataset.from_tensor_slices((x, y)))
    )
    model.fit(
        data.batch(16), epochs=3, verbose=0, callbacks=[Hangs()], validation_data=(x, y), validation_batch_size=16
    )
variables = [*model.variables, *optimizer.variables]
np.savez(sys.argv[1], **{f"v{number:02}": np.asarray(v) for number, v in enumerate(variables)})
