"""Measures real steps of small batches on the device at hand, to correct what the simulation leaves out.

The process ends after the examination, so the steps may change weights.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from oomph.tensorflow.planning.tracing import Traced

_STEPS = 3
_MOST_SECONDS = 8.0
"""No further step begins after this time."""


def device() -> str:
    """Where real steps run: the first GPU if one is visible."""
    return "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"


def measured_peaks(traced: Traced, batch: Any, held: int) -> Iterator[int]:
    """The peaks of real steps with this batch, in bytes, without what the process holds besides the training.

    Ends early where a step fails or takes long.
    """
    until, where = time.monotonic() + _MOST_SECONDS, device()
    for _ in range(_STEPS):
        try:
            before = tf.config.experimental.get_memory_info(where)["current"]
            tf.config.experimental.reset_memory_stats(where)
            result = traced.concrete(batch)
            peak = int(tf.config.experimental.get_memory_info(where)["peak"])
            del result
        except (tf.errors.OpError, ValueError, TypeError, RuntimeError):
            return
        yield peak - max(0, before - held)
        if time.monotonic() >= until:
            return
