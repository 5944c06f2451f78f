"""A small model and its data, for scripts in which something else takes the memory."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np
import tensorflow as tf

STEP_SECONDS = 0.02
BYTES = 200 << 10
"""The bytes that a step may leave behind: about ten megabytes a second."""


class Pace(keras.callbacks.Callback):
    """Makes each step take at least 20 ms, as a larger model would."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        time.sleep(STEP_SECONDS)


def model(width: int = 32) -> keras.Model:
    made = keras.Sequential([keras.Input((32,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(1)])
    made.compile("adam", "mse")
    return made


def data(steps: int = 100, batch: int = 16) -> tf.data.Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps * batch, 32)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(batch)


def block(size: int = BYTES) -> np.ndarray:
    """Return an array whose bytes are really in memory."""
    return np.ones(size // 4, "float32")
