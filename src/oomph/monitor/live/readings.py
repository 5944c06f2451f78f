"""Reads the loss, the memory of the fullest device, and the number of non-finite weights for a meter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.dialects import dialect_of
from oomph.keras_bridge.names import support
from oomph.keras_bridge.names.row import Feature
from oomph.keras_bridge.runtime.allocator import DeviceMemory
from oomph.keras_bridge.runtime.errors import handled


class Losses:
    """Reads the loss of a model. Each reading waits for the step that is running on the device.

    Keras shows the mean over the epoch, in which a bad batch soon disappears. The sums behind that mean reveal the mean
    since the last reading and the number of samples.
    """

    def __init__(self, model: Any) -> None:
        self._tracker = None if support.lacks(Feature.LOSS) else dialect_of(model).loss_tracker(model)
        self._total = self._count = 0.0
        self._is_training = True
        """False once the epoch has ended and an evaluation may use the sums."""
        self.examples = 0.0
        """The number of samples since the fit began, or 0 if the model does not count them."""

    def begin_epoch(self) -> None:
        """Start an epoch. Keras resets its sums at this point."""
        self._total = self._count = 0.0
        self._is_training = True

    def end_epoch(self) -> None:
        """End an epoch. Until the next one starts, the sums belong to an evaluation."""
        self._is_training = False

    def values(self, logs: Any) -> dict[str, float | None]:
        """Return the metrics that describe the loss.

        Args:
            logs: the value that the last step returned.
        """
        shown = _number(logs.get("loss")) if isinstance(logs, Mapping) else None
        recent = self._recent()
        found = [value for value in (shown, recent) if value is not None]
        broken = not all(map(math.isfinite, found))
        return {
            "loss": shown,
            "recent_loss": recent,
            "not_finite_loss": float(broken) if found else None,
        }

    def _recent(self) -> float | None:
        if not self._is_training or self._tracker is None or len(getattr(self._tracker, "variables", ())) != 2:
            return None
        total, count = _number(self._tracker.total), _number(self._tracker.count)
        if total is None or not count:
            return None  # a custom step, which does not use the tracker
        if count < self._count:  # the tracker was reset
            self._total = self._count = 0.0
        samples, sum_of_them = count - self._count, total - self._total
        self._total, self._count = total, count
        self.examples += samples
        return sum_of_them / samples if samples else None


def _number(value: Any) -> float | None:
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError):
        return None  # not a single number


class FullestDevice:
    """Reads the allocators of all GPUs, or the CPU allocator if there is no GPU and it reports anything."""

    def __init__(self) -> None:
        gpus = [gpu.name.rpartition("device:")[2] for gpu in tf.config.list_logical_devices("GPU")]
        self._devices = [DeviceMemory.of_training_device(gpu) for gpu in gpus]
        self._devices = self._devices or [DeviceMemory.of_training_device()]

    def in_use_bytes(self) -> int | None:
        """Return the memory in use on the fullest device, in bytes."""
        return max((device.in_use_bytes() or 0 for device in self._devices), default=0) or None

    def values(self) -> dict[str, float | None]:
        """Return the metrics of the fullest device."""
        fullest = max(self._devices, key=lambda device: device.in_use_bytes() or 0)
        return {
            "allocator_in_use_bytes": fullest.in_use_bytes(),
            "allocator_peak_bytes": fullest.peak_bytes(),
            "allocator_limit_bytes": fullest.limit_bytes,
        }


_COST = 200
"""The minimum time between two checks, as a multiple of the time a check takes, so that checks take at most 0.5 % of
the time."""
_LEAST_SECONDS = 2.0


class WeightLooks:
    """Checks the trainable weights for values that are not finite, as often as the cost of a check allows.

    The loss alone is not enough, since a ReLU may hide NaN from it.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._due = clock()
        self._is_first = True
        """True if the next check is the first one, which costs more than later ones."""

    def look(self, weights: Sequence[Any]) -> int | None:
        """Count the values that are NaN or infinite, or return None if no check is due or memory is short."""
        began = self._clock()
        if began < self._due:
            return None
        self._due = math.inf
        with handled():
            try:
                found = not_finite(weights)
            except tf.errors.ResourceExhaustedError:
                return None  # no further checks: training needs the memory
        ended = self._clock()
        self._due = ended + max(_LEAST_SECONDS, 0.0 if self._is_first else _COST * (ended - began))
        self._is_first = False
        return found


def not_finite(weights: Sequence[Any]) -> int:
    """Count the values in the weights that are NaN or infinite.

    The sum of a tensor is not finite if any of its values is not, and computing it does not need as much memory as the
    tensor. The values are counted individually, on the host, only if a sum is not finite, which may also be due to
    overflow.
    """
    values = [tf.convert_to_tensor(weight) for weight in weights]
    floats = [value for value in values if value.dtype.is_floating]
    if not floats:
        return 0
    sums = tf.stack([tf.cast(tf.reduce_sum(value), tf.float64) for value in floats])
    suspect = ~np.isfinite(sums.numpy())
    return sum(_count(value) for value, is_suspect in zip(floats, suspect, strict=True) if is_suspect)


def _count(value: Any) -> int:
    return int(np.count_nonzero(~np.isfinite(value.numpy().astype(np.float64))))
