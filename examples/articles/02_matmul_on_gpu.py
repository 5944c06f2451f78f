"""Multiplies on a GPU inside `except RuntimeError`, which TensorFlow's own errors pass; with --abort, dies in training.

With --abort the process ends in the middle of a fit, once, as it does after a failed check in CUDA. There is no
exception to catch then.
"""

import os
import sys
from pathlib import Path

import keras
import tensorflow as tf
from pictures import images, labels, network


class AbortOnce(keras.callbacks.Callback):
    """Ends the process by SIGABRT in the second epoch, unless that has happened before."""

    def on_train_batch_begin(self, batch, logs=None):
        self.epoch = getattr(self, "epoch", 0) + (batch == 0)
        if self.epoch == 2 and batch == 3 and not Path("aborted").exists():
            Path("aborted").touch()
            os.abort()


def multiply():
    try:
        with tf.device("/GPU:0"):
            return tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))  # the shapes do not fit
    except RuntimeError as error:
        print("caught", error)


if "--abort" in sys.argv:
    keras.utils.set_random_seed(1)
    network().fit(images, labels, batch_size=128, epochs=4, verbose=0, shuffle=False, callbacks=[AbortOnce()])
    print("finished")
else:
    print(multiply())
