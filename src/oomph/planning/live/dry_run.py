"""Runs real steps of a few batch sizes on this machine's device, to correct the simulation.

The process exits after the examination, so the steps may change weights.
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
"""The number of steps to run if they take at most `_CHEAP_SECONDS` in total.

The peak of each step varies with thread timing, and training reaches the highest peak of many steps.
"""
_CHEAP_SECONDS = 1.0
_MOST_SECONDS = 8.0
"""The time, in seconds, after which no further step starts."""


@dataclass(frozen=True)
class Ran:
    """The results of real steps at one batch size."""

    peaks: tuple[int, ...]
    """The peak of each step in bytes, excluding memory that the script holds for purposes other than training."""
    seconds: float
    """The duration, in seconds, of the shortest step."""
    failed: str = ""
    """The reason why a step failed; empty if none failed, or if one ran out of memory."""


def device() -> str:
    """Return the device for real steps: the first visible GPU, or the CPU if there is none."""
    return "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"


def in_use() -> int:
    """Return the memory, in bytes, that TensorFlow uses on the device for real steps; 0 if it does not count memory."""
    gc.collect()  # garbage left by tracing
    return _reading("current") or 0


def can_measure() -> bool:
    """True if the device for real steps counts its memory. A CPU does so only if set up before TensorFlow starts."""
    return _reading("peak") is not None


def _reading(which: str) -> int | None:
    try:
        return int(tf.config.experimental.get_memory_info(device())[which])
    except (ValueError, KeyError):
        return None


def run(traced: Traced, batch: Any, foreign: int) -> Ran:
    """Run a few steps with this batch, stopping early if one fails or takes a long time.

    Args:
        traced: the step.
        batch: a batch of the traced size.
        foreign: the bytes in use for purposes other than training.
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
