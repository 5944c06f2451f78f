"""Reads samples from any source once, in order, as batches of tensors on the host.

As in tf.data, tuples and dicts group arrays that belong together, and a list is a sequence of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.keras_bridge.batch import batches


def in_batches(dataset: Any, size: int) -> Iterator[Any]:
    """Yield the samples of `dataset` in batches of `size`; the last may be smaller. Raises TypeError if impossible."""
    if isinstance(dataset, tf.data.Dataset):
        return _of_pipeline(dataset, size)
    if isinstance(dataset, (tuple, dict)) or hasattr(dataset, "shape"):
        arrays = _mapped(_sliceable, dataset)
        return _of_arrays(arrays, _length(arrays), size)
    if isinstance(dataset, Iterable) and not isinstance(dataset, (str, bytes)):
        return _of_elements(dataset, size)
    name = type(dataset).__name__
    raise TypeError(f"dataset must be a tf.data.Dataset, arrays or an iterable of elements, not {name}")


def _of_pipeline(dataset: Any, size: int) -> Iterator[Any]:
    yield from dataset.batch(size)


def _of_arrays(arrays: Any, length: int, size: int) -> Iterator[Any]:
    for start in range(0, length, size):
        yield _mapped(_tensor, batches.part_of(arrays, start, min(length, start + size)))


def _of_elements(elements: Iterable[Any], size: int) -> Iterator[Any]:
    remaining = iter(elements)
    while taken := list(islice(remaining, size)):
        yield _stacked(taken)


# -- arrays -----------------------------------------------------------------------------------------------------------


def _sliceable(leaf: Any) -> Any:
    """Return arrays unchanged, but copy a tensor to the host, since slicing it on a device would need device memory."""
    if tf.is_tensor(leaf):
        with tf.device("/CPU:0"):
            return tf.identity(leaf)
    return leaf if hasattr(leaf, "shape") else _tensor(leaf)


def _length(arrays: Any) -> int:
    length = batches.size_of(arrays)
    if length is None:
        shapes = ", ".join(str(tuple(part.shape)) for part in tf.nest.flatten(arrays) if part is not None)
        raise ValueError(
            f"the arrays of dataset must have the same first dimension, but their shapes are {shapes or '(none)'}; "
            "pass elements that do not belong together as a list"
        )
    return length


def _mapped(function: Callable[[Any], Any], nest: Any) -> Any:
    if isinstance(nest, dict):
        return {key: _mapped(function, value) for key, value in nest.items()}
    if isinstance(nest, tuple):
        return _tuple_like(nest, [_mapped(function, value) for value in nest])
    return None if nest is None else function(nest)


# -- elements ---------------------------------------------------------------------------------------------------------


def _stacked(elements: list[Any]) -> Any:
    first = elements[0]
    if len({_structure(element) for element in elements}) > 1:
        raise ValueError("the elements of dataset must all have the same structure of tuples and dicts")
    if isinstance(first, dict):
        return {key: _stacked([element[key] for element in elements]) for key in first}
    if isinstance(first, tuple):
        return _tuple_like(first, [_stacked(list(column)) for column in zip(*elements, strict=True)])
    if isinstance(first, (np.ndarray, np.generic)):
        return _tensor(np.stack(elements))  # TensorFlow would convert a list of int64 scalars to int32
    return None if first is None else _tensor(elements)


def _structure(element: Any) -> Any:
    if isinstance(element, dict):
        return frozenset(element)
    return len(element) if isinstance(element, tuple) else element is None


def _tuple_like(example: tuple[Any, ...], values: list[Any]) -> Any:
    return type(example)(*values) if hasattr(example, "_fields") else tuple(values)


def _tensor(value: Any) -> Any:
    if tf.is_tensor(value):
        return value
    with tf.device("/CPU:0"):
        return tf.convert_to_tensor(value)
