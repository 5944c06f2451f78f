"""Batches of NumPy arrays, as passed to `train_on_batch`: they stay in Python; only the part a step uses is copied.

TensorFlow does not survive every failure to copy an array: on the CPU it continues without a tensor and crashes
(`NdarrayToTensor` in tensorflow/python/lib/core/ndarray_tensor.cc, whose new tensor may have no buffer).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.runtime.allocator import DeviceMemory


def held(batch: Any) -> Any:
    """The batch, with everything except numeric arrays converted to tensors."""
    if all(part is None or _is_array(part) for part in tf.nest.flatten(batch)):
        return batch
    return tf.nest.map_structure(
        lambda part: part if part is None or _is_array(part) else tf.convert_to_tensor(part), batch
    )


def specs_of(batch: Any) -> Any:
    """The specs with which to trace a step for this batch."""
    return tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype) if _is_array(part) else part, batch)


def on_device(batch: Any) -> Any:
    """The batch as tensors.

    Raises:
        tf.errors.ResourceExhaustedError: it does not fit in memory.
    """
    return tf.nest.map_structure(lambda part: tensor_of(part) if _is_array(part) else part, batch)


def tensor_of(array: Any) -> tf.Tensor:
    """The array as a tensor on the device of the context.

    Raises:
        tf.errors.ResourceExhaustedError: it does not fit in memory.
    """
    memory = DeviceMemory.of_training_device()
    if memory.limit_bytes is not None and memory.device.startswith("CPU"):
        tf.raw_ops.Empty(shape=array.shape, dtype=array.dtype)  # an operation raises if there is no memory
    return tf.convert_to_tensor(array)


def _is_array(part: Any) -> bool:
    return type(part) is np.ndarray and part.dtype.kind in "biufc" and part.ndim > 0
