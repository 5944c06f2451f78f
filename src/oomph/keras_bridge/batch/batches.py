"""Takes apart and slices a batch as Keras passes it: a nest of tensors with a common first dimension.

Batches of NumPy arrays, as passed to `train_on_batch`, stay in Python; only the part that a step uses is copied.
TensorFlow does not survive every failure to copy an array: on the CPU it continues without a tensor and crashes
(`NdarrayToTensor` in tensorflow/python/lib/core/ndarray_tensor.cc, whose new tensor may have no buffer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.runtime.allocator import DeviceMemory


def tensors_of(batch: Any) -> list[Any]:
    """List every dense tensor in a batch, including those inside ragged and sparse tensors but not None entries."""
    return [leaf for leaf in tf.nest.flatten(batch, expand_composites=True) if leaf is not None]


def with_tensors(batch: Any, tensors: list[Any]) -> Any:
    """Return the same nest with its dense tensors replaced, in the order of `tensors_of`."""
    replacements = iter(tensors)
    leaves = tf.nest.flatten(batch, expand_composites=True)
    return tf.nest.pack_sequence_as(
        batch, [None if leaf is None else next(replacements) for leaf in leaves], expand_composites=True
    )


def in_new_containers(batch: Any) -> Any:
    """Return the batch in new lists and dicts, which the user's step may change: the tensors are used again."""
    return tf.nest.map_structure(lambda part: part, batch)


def size_of(batch: Any) -> int | None:
    """Return the number of samples in an eager batch, or None if its tensors disagree."""
    sizes = {_first_dimension(part) for part in tf.nest.flatten(batch) if part is not None}
    return sizes.pop() if len(sizes) == 1 else None


def part_of(batch: Any, start: int, stop: int) -> Any:
    """Return the samples from `start` up to `stop`, on the host."""
    with tf.device("/CPU:0"):
        return tf.nest.map_structure(lambda part: None if part is None else _slice(part, start, stop), batch)


def length_of(batch: Any) -> Any:
    """Return the number of samples in a batch: an int in eager mode, a tensor while tracing."""
    first = next(part for part in tf.nest.flatten(batch) if part is not None)
    if isinstance(first, tf.RaggedTensor):
        return tf.cast(first.nrows(), tf.int32)
    size = tf.cast(first.dense_shape[0], tf.int32) if isinstance(first, tf.SparseTensor) else tf.shape(first)[0]
    return int(size) if tf.executing_eagerly() else size


def length_is_known(spec: Any) -> bool:
    """True if every batch of this kind has the same number of samples."""
    shapes = [part.shape for part in tf.nest.flatten(spec) if hasattr(part, "shape")]  # absent entries have no shape
    return all(shape.rank is not None and shape.rank > 0 and shape[0] is not None for shape in shapes)


def is_dataset_iterator(iterator: Any) -> bool:
    """True if TensorFlow creates the batches: the iterator runs over a dataset, distributed by a strategy or not."""
    return isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)) or TENSORFLOW.iterator_spec.on(
        iterator
    )


def general_spec(spec: Any, batch: Any) -> Any:
    """Return a spec for micro-batches of any size from this batch, which also accepts everything that `spec` does."""
    new = tf.nest.map_structure(lambda part: None if part is None else _spec_of_parts(part), batch)
    if spec is None:
        return new
    return tf.nest.map_structure(lambda old, this: None if this is None else _most_general(old, this), spec, new)


def sample_of(batch: Any, count: int) -> Any:
    """Return `count` samples spread over a batch, longest first if ragged, or the first ones if it is sparse."""
    parts = [part for part in tf.nest.flatten(batch) if part is not None]
    if any(isinstance(part, tf.SparseTensor) for part in parts):
        return part_of(batch, 0, count)
    with tf.device("/CPU:0"):
        rows = tf.linspace(0, int(parts[0].shape[0]) - 1, count)
        rows = tf.cast(tf.round(rows), tf.int64)
        ragged = next((part for part in parts if isinstance(part, tf.RaggedTensor)), None)
        if ragged is not None:  # longest first, so that micro-batches are padded to different lengths
            rows = tf.gather(tf.argsort(ragged.row_lengths(), direction="DESCENDING"), rows)
        return tf.nest.map_structure(lambda part: None if part is None else _rows_of(part, rows), batch)


def kind_of(batch: Any, with_size: bool = False) -> Any:
    """Return a key for traced steps: the types, dtypes and shapes of a batch, without its size unless requested.

    Called for each batch held in Python, where `tf.nest` would take longer than everything else.
    """
    first = 0 if with_size else 1

    def kind(part: Any) -> Any:
        if part is None:
            return None
        if isinstance(part, (tuple, list)):
            return (type(part), *map(kind, part))
        if isinstance(part, Mapping):
            return (type(part), *((key, kind(value)) for key, value in part.items()))
        if isinstance(part, tf.distribute.DistributedValues):
            return tuple(kind(value) for value in part.values)
        return (type(part), part.dtype, tuple(part.shape)[first:])

    return kind(batch)


def layout_of(batch: Any) -> str:
    """Return a key for steps with micro-batches of any size: the nest, its absent entries, dtypes and ranks."""

    def layout(part: Any) -> Any:
        if part is None:
            return None
        composite = type(part).__name__ if isinstance(part, (tf.RaggedTensor, tf.SparseTensor)) else ""
        return f"{composite} {tf.as_dtype(part.dtype).name} {len(part.shape)}"

    return repr(tf.nest.map_structure(layout, batch))


def without_optionals(batch: Any) -> Any:
    """Replace absent entries with None, as the train step expects; Keras marks them with an empty Optional."""
    return tf.nest.map_structure(lambda part: None if isinstance(part, tf.experimental.Optional) else part, batch)


def _spec_of_parts(part: Any) -> Any:
    shape = [None, *part.shape[1:]]
    if isinstance(part, tf.RaggedTensor):
        return tf.RaggedTensorSpec(shape, part.dtype, part.ragged_rank, part.row_splits.dtype)
    return (
        tf.SparseTensorSpec(shape, part.dtype)
        if isinstance(part, tf.SparseTensor)
        else tf.TensorSpec(shape, part.dtype)
    )


def _most_general(old: Any, new: Any) -> Any:
    return old.most_specific_common_supertype([new]) or new


def _first_dimension(part: Any) -> int | None:
    shape = getattr(part, "shape", None)
    if shape is None or len(shape) == 0:
        return None
    return None if shape[0] is None else int(shape[0])


def _rows_of(part: Any, rows: Any) -> Any:
    return tensor_of(part[rows.numpy()]) if type(part) is np.ndarray else tf.gather(part, rows)


def _slice(part: Any, start: int, stop: int) -> Any:
    if type(part) is np.ndarray:
        return tensor_of(part[start:stop])
    if isinstance(part, tf.SparseTensor):
        length = stop - start
        begin = [start] + [0] * (len(part.shape) - 1)
        return tf.sparse.slice(part, begin, [length, *part.dense_shape.numpy()[1:]])
    return part[start:stop]


def held(batch: Any) -> Any:
    """Return the batch with everything except numeric arrays converted to tensors."""
    if all(part is None or _is_array(part) for part in tf.nest.flatten(batch)):
        return batch
    return tf.nest.map_structure(
        lambda part: part if part is None or _is_array(part) else tf.convert_to_tensor(part), batch
    )


def specs_of(batch: Any) -> Any:
    """Return the specs with which to trace a step for this batch."""
    return tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype) if _is_array(part) else part, batch)


def on_device(batch: Any) -> Any:
    """Convert the batch to tensors.

    Raises:
        tf.errors.ResourceExhaustedError: if the batch does not fit into memory.
    """
    return tf.nest.map_structure(lambda part: tensor_of(part) if _is_array(part) else part, batch)


def tensor_of(array: Any) -> tf.Tensor:
    """Convert the array to a tensor on the current device.

    Raises:
        tf.errors.ResourceExhaustedError: if the array does not fit into memory.
    """
    memory = DeviceMemory.of_training_device()
    if memory.limit_bytes is not None and memory.device.startswith("CPU"):
        tf.raw_ops.Empty(shape=array.shape, dtype=array.dtype)  # an operation raises if there is no memory
    return tf.convert_to_tensor(array)


def _is_array(part: Any) -> bool:
    return type(part) is np.ndarray and part.dtype.kind in "biufc" and part.ndim > 0


class MicroBatchSlice(NamedTuple):
    """The position of a micro-batch in its batch. The fields are host tensors, so a new position needs no new trace."""

    share: Any
    """float64: the number of samples in the micro-batch, divided by that of the batch."""
    start: Any
    """int32: the index in the batch of the micro-batch's first sample."""
    whole: Any
    """int32: the number of samples in the batch."""
    divisors: Any
    """float64 [K]: the full-batch divisor for each reduction whose divisor depends on the data."""
    summed: Any
    """float64 [J]: for each loss term that is a plain number, 1 if it is a sum over samples, 0 if it is a mean."""

    @classmethod
    def of(cls, start: int, part: int, whole: int, divisors: Any = (), summed: Any = ()) -> MicroBatchSlice:
        """Return the slice of `part` samples starting at index `start` in a batch of `whole` samples."""
        with tf.device("/CPU:0"):
            return cls(
                tf.constant(part / whole if whole else 0.0, tf.float64),
                tf.constant(start, tf.int32),
                tf.constant(whole, tf.int32),
                tf.constant(np.asarray(divisors, np.float64)),
                tf.constant(np.asarray(summed, np.float64)),
            )

    @staticmethod
    def specs() -> MicroBatchSlice:
        """Return the signature of a function that accepts any slice."""
        vector = tf.TensorSpec([None], tf.float64)
        number = tf.TensorSpec([], tf.int32)
        return MicroBatchSlice(tf.TensorSpec([], tf.float64), number, number, vector, vector)
