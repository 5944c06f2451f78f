"""Batches of NumPy arrays, as `train_on_batch` gets them: they stay in Python, and only what a step takes is copied.

TensorFlow does not survive every failure to copy an array: on the CPU it goes on with no tensor, and crashes
(`NdarrayToTensor` in tensorflow/python/lib/core/ndarray_tensor.cc, whose new tensor may be without a buffer).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from oomph.tensorflow.memory import DeviceMemory

_ALIGNMENT = 64
"""Arrays that begin at a multiple of so many bytes are not copied (EIGEN_MAX_ALIGN_BYTES)."""


def held(batch: Any) -> Any:
    """The same batch; everything but arrays of numbers has become tensors."""
    if all(part is None or _is_array(part) for part in tf.nest.flatten(batch)):
        return batch
    return tf.nest.map_structure(
        lambda part: part if part is None or _is_array(part) else tf.convert_to_tensor(part), batch
    )


def specs_of(batch: Any) -> Any:
    """What a step is traced for on this batch."""
    return tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype) if _is_array(part) else part, batch)


def on_device(batch: Any) -> Any:
    """The batch as tensors.

    Raises:
        tf.errors.ResourceExhaustedError: there is no memory for it.
    """
    if not any(map(_is_array, tf.nest.flatten(batch))):
        return batch
    memory = DeviceMemory.of_training_device()
    if memory.limit_bytes is not None and memory.device.startswith("CPU"):
        _raise_if_too_large(batch, memory)
    return tf.nest.map_structure(lambda part: tf.convert_to_tensor(part) if _is_array(part) else part, batch)


def _raise_if_too_large(batch: Any, memory: DeviceMemory) -> None:
    arrays = [part for part in tf.nest.flatten(batch) if _is_array(part) and _is_copied(part)]
    room = (memory.limit_bytes or 0) - (memory.in_use_bytes() or 0)
    if arrays and sum(array.nbytes for array in arrays) > room:
        raise _no_room(max(arrays, key=lambda array: array.nbytes), memory.device)


def _is_array(part: Any) -> bool:
    return type(part) is np.ndarray and part.dtype.kind in "biufc" and part.ndim > 0


def _is_copied(array: Any) -> bool:
    return not array.flags.c_contiguous or array.ctypes.data % _ALIGNMENT != 0


def _no_room(array: Any, device: str) -> Exception:
    """The error that TensorFlow raises when it finds out by itself."""
    shape = ",".join(map(str, array.shape))
    text = (
        f"OOM when allocating tensor with shape[{shape}] and type {array.dtype.name} on /device:{device} by allocator"
    )
    error: Exception = tf.errors.ResourceExhaustedError(None, None, f"{text} cpu: the batch does not fit")
    return error
