"""Runs real steps on the GPU itself with Keras' own train function, fed as in `fit`.

The process ends after the examination, so the steps may change weights.
"""

from __future__ import annotations

import gc
import itertools
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import as_out_of_memory
from oomph.planning.gpu_costs import GROWTH
from oomph.planning.live import samples
from oomph.reach.error_words import in_words as error_in_words
from oomph.reach.error_words import is_of_memory

_STEPS = 4
"""The number of steps to run; the first one also compiles, and tries out algorithms of libraries."""
_MOST_SECONDS = 20.0
"""No further step begins after this many seconds, but two steps run in any case."""
_LEAST_STEPS = 2


@dataclass(frozen=True)
class GpuRun:
    """The results of real steps at one batch size."""

    peak: int = 0
    """The highest peak of the steps, in bytes of everything in TensorFlow's allocator; 0 if no step succeeded."""
    ran_out: bool = False
    """True if a step ran out of the GPU's memory."""
    failed: str = ""
    """The reason a step failed; empty if none did, or if it ran out of memory."""


class GpuSteps:
    """Runs steps of one compiled and built model on the GPU.

    Args:
        model: the model.
        batch: one batch as `train_step` takes it.
        given: the arguments of the call.
        by_hand: whether the script calls `train_on_batch`, which keeps the batch during a step.
    """

    def __init__(self, model: Any, batch: Any, given: Mapping[str, Any], by_hand: bool) -> None:
        self._model, self._batch, self._by_hand = model, batch, by_hand
        self._size = samples.size_of(batch)
        # Kept: Keras copies all of the arrays to the GPU, and holds them there while it trains.
        is_known = not by_hand and (sum(samples.array_sizes(given)) > 0 or isinstance(given.get("x"), tf.data.Dataset))
        self._data = samples.dataset_of(model, given) if is_known else None
        self._is_open = leaves_size_open(self._data)
        self._memory = DeviceMemory.of_training_device()
        self.is_xla = bool(model.jit_compile) and not model.run_eagerly
        """True if Keras compiles the step with XLA on this machine."""
        self.is_loose = os.environ.get(GROWTH, "").lower() == "true"
        """True if TensorFlow takes the GPU's memory only as needed, by oomph's setting or the user's."""

    @property
    def limit(self) -> int:
        """The most bytes that TensorFlow's allocator can get; 0 if unknown."""
        return self._memory.limit_bytes or 0

    def in_use(self) -> int:
        """The bytes in use in TensorFlow's allocator now."""
        gc.collect()  # what tracing has left
        return self._memory.in_use_bytes() or 0

    def run(self, size: int) -> GpuRun:
        """Run a few steps of this many samples; stops early if a step fails."""
        try:
            peak = self._peak(size)
        except Exception as error:  # the user's own layers and losses may raise anything
            if as_out_of_memory(error) or is_of_memory(error):
                return GpuRun(ran_out=True)
            return GpuRun(failed=error_in_words(error))
        finally:
            gc.collect()
        return GpuRun(peak)

    def _peak(self, size: int) -> int:
        self._model.make_train_function(force=True)  # each size as if it were the only one
        feed, until, peaks = self._feed(size), time.monotonic() + _MOST_SECONDS, []
        for number in range(_STEPS):
            if number >= _LEAST_STEPS and time.monotonic() >= until:
                break
            peaks.append(self._step(feed))
        return max(peaks)

    def _step(self, feed: Iterator[Any]) -> int:
        self._memory.reset_peak()
        logs = self._model.train_function(feed)
        for value in tf.nest.flatten(logs):
            np.asarray(value)  # waits for the GPU, whose errors may come late
        return self._memory.peak_bytes() or 0

    def _feed(self, size: int) -> Iterator[Any]:
        """The data as Keras would iterate over them: the same samples repeated, kept on the host."""
        if self._by_hand:
            return itertools.repeat(samples.repeated(self._batch, self._size, size))
        data = self._dataset(size)
        return iter(self._model.distribute_strategy.experimental_distribute_dataset(data))

    def _dataset(self, size: int) -> Any:
        with tf.device("CPU:0"):
            leaves = tf.nest.flatten(self._batch)
            if all(len(leaf.shape) and leaf.shape[0] == self._size for leaf in leaves):
                whole = tf.data.Dataset.from_tensor_slices(self._batch).repeat()
                return whole.batch(size, drop_remainder=not self._is_open)
            return tf.data.Dataset.from_tensors(samples.repeated(self._batch, self._size, size)).repeat()


def gpu_name() -> str:
    """TensorFlow's name for the GPU that trains; empty if there is none."""
    if not tf.config.list_logical_devices("GPU"):
        return ""
    try:
        return str(tf.config.experimental.get_device_details(tf.config.get_visible_devices("GPU")[0])["device_name"])
    except (KeyError, IndexError, ValueError):
        return ""


def leaves_size_open(dataset: Any) -> bool:
    """True if the dataset of a fit leaves the batch size open: the last batch may be smaller.

    Also true for a source that is no dataset, such as a generator (None).
    """
    if dataset is None:
        return True
    leaves = tf.nest.flatten(dataset.element_spec)
    return not all(leaf.shape.rank and leaf.shape[0] is not None for leaf in leaves if hasattr(leaf, "shape"))
