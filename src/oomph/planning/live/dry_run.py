"""Runs real steps of a few batch sizes on this machine's device, to correct the simulation.

The process ends after the examination, so the steps may change weights.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.planning.live.tracing import Traced
from oomph.reach.script_output import in_words as error_in_words

_STEPS = 3
_MORE_STEPS = 8
"""The number of steps to run if together they take at most `_CHEAP_SECONDS`. Thread timing changes the peak of each
step, and a training reaches the highest of many."""
_CHEAP_SECONDS = 1.0
_MOST_SECONDS = 8.0
"""The time, in seconds, after which no further step starts."""


@dataclass(frozen=True)
class Ran:
    """The results of real steps at one batch size."""

    peaks: tuple[int, ...]
    """The peak of each step in bytes, excluding what the script holds in addition to the training."""
    seconds: float
    """The duration, in seconds, of the shortest step."""
    failed: str = ""
    """The reason that a step failed; empty if none failed, or if one ran out of memory."""


def device() -> str:
    """Return the device for real steps: the first visible GPU, otherwise the CPU."""
    return "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"


def in_use() -> int:
    """Return the bytes that TensorFlow's allocator uses on the device for real steps; 0 if it does not count them."""
    gc.collect()  # what tracing has left
    return _reading("current") or 0


def can_measure() -> bool:
    """True if the device for real steps counts its memory. A CPU does so only if told to before TensorFlow starts."""
    return _reading("peak") is not None


def _reading(which: str) -> int | None:
    try:
        return int(tf.config.experimental.get_memory_info(device())[which])
    except (ValueError, KeyError):
        return None


def run(traced: Traced, batch: Any, foreign: int) -> Ran:
    """Run a few steps with this batch; stop early if one fails or takes a long time.

    Args:
        traced: the step.
        batch: a batch of the traced size.
        foreign: the size in bytes of memory in use that does not belong to the training.
    """
    start, where = time.monotonic(), device()
    peaks: list[int] = []
    shortest = float("inf")
    in_use()
    for number in range(1, _MORE_STEPS + 1):
        try:
            tf.config.experimental.reset_memory_stats(where)
            began = time.monotonic()
            result = traced.concrete(batch)
            shortest = min(shortest, time.monotonic() - began)
            peaks.append(int(tf.config.experimental.get_memory_info(where)["peak"]) - foreign)
            del result
        except tf.errors.ResourceExhaustedError:
            break
        except (tf.errors.OpError, ValueError, TypeError, RuntimeError) as error:
            return Ran(tuple(peaks), shortest, error_in_words(error))
        if time.monotonic() - start >= (_MOST_SECONDS if number < _STEPS else _CHEAP_SECONDS):
            break
    return Ran(tuple(peaks), shortest)
