"""A fit's device memory and batch size, from which the closing line suggests a larger batch."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.models import optimizers_of
from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.allocator import DeviceMemory, peak_bytes_of_device

_KEEP_THE_SIZE = ("Prefetch", "Options", "Take", "Skip", "Repeat", "Cache", "Shuffle", "_MapDataset", "ParallelMap")
"""Names of stages that may follow `batch` without changing the batch size."""
_MOST_STAGES = 100


def memory_taken(model: Any, epochs: Any, data: Any, seen_peak: int) -> dict[str, int | None]:
    """The batch size and the training device's memory in bytes, as fields of `fit-finished`; None if unknown.

    Args:
        model: the model that was trained.
        epochs: Keras' epoch iterator over the data.
        data: the argument `x` of `fit`.
        seen_peak: the most bytes that were in use after a step.
    """
    now = peak_bytes_of_device()
    peak = None if now is None else max(now, seen_peak)
    limit = None if peak is None else DeviceMemory.of_training_device().limit_bytes
    return {
        "batch_size": batch_size(epochs, data),
        "device_peak_bytes": peak,
        "device_limit_bytes": limit,
        "kept_bytes": None if peak is None else _kept_bytes(model),
    }


def batch_size(epochs: Any, data: Any) -> int | None:
    """The samples in a full batch; None if only reading the data would show it."""
    size = getattr(getattr(epochs, "data_adapter", None), "batch_size", None)
    if size is None and isinstance(data, tf.data.Dataset):
        size = _size_in(data)
    return size if isinstance(size, int) and size > 0 else None


def _size_in(dataset: Any) -> int | None:
    """The batch size of a pipeline's last `batch` stage."""
    for _ in range(_MOST_STAGES):
        size = TENSORFLOW.dataset_batch_size.get(dataset)
        if size is not None:
            known = tf.get_static_value(size)
            return None if known is None else int(known)
        before = TENSORFLOW.dataset_inputs.call(dataset) if TENSORFLOW.dataset_inputs.on(dataset) else []
        if len(before) != 1 or not any(name in type(dataset).__name__ for name in _KEEP_THE_SIZE):
            return None
        dataset = before[0]
    return None


def _kept_bytes(model: Any) -> int:
    """Bytes that the model and its optimizers keep from step to step."""
    each = [*model.variables, *(variable for optimizer in optimizers_of(model) for variable in optimizer.variables)]
    variables = {id(variable): variable for variable in each}.values()
    return sum(math.prod(variable.shape) * tf.as_dtype(variable.dtype).size for variable in variables)
