"""Sizes of the full buffers of a tf.data pipeline, found before they are filled."""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from oomph.keras_bridge.names.tensorflow2 import TENSORFLOW
from oomph.keras_bridge.pipelines.datasets import chain, kind_of, static
from oomph.planning.data_buffers import CACHE, PREFETCH, SHUFFLE, DataBuffer

_MOST_MEASURED, _MEASURING_SECONDS = 32, 1.0
"""The most elements to read when measuring one stage, and the most seconds to spend on it."""
_MANY = 1000
"""A buffer of fewer elements than this is taken to fill quickly."""
_OF_TEXT = 24
"""The bytes that a string takes besides its characters."""


@dataclass(frozen=True)
class Filling:
    """One buffer of a pipeline, and the time to produce an element for it."""

    buffer: DataBuffer
    declared: int
    """The declared size of the buffer, in elements; negative for all elements."""
    seconds: float
    """The seconds to produce one element; 0 if not measured."""


def fillings_of(dataset: Any, readable: Callable[[Any], Any]) -> tuple[Filling, ...]:
    """The buffers of a dataset's shuffles, caches and fixed-size prefetches, source first.

    Args:
        dataset: the pipeline.
        readable: makes a version of a dataset that can be read with little memory, or None.
    """
    return tuple(filling for each in chain(dataset) for filling in _filling(each, readable))


def _filling(dataset: Any, readable: Callable[[Any], Any]) -> Iterator[Filling]:
    kind, declared = kind_of(dataset), declared_size(dataset)
    if kind not in (SHUFFLE, CACHE, PREFETCH) or declared is None:
        return
    (before,) = TENSORFLOW.dataset_inputs.call(dataset)
    elements = _at_most(declared, int(before.cardinality()))
    size = _static_bytes(before.element_spec)
    measured, seconds = (size, 0.0) if _is_small(size, elements) else _measured(readable(before))
    file = _text(TENSORFLOW.cache_file.get(dataset)) if kind == CACHE else ""
    yield Filling(DataBuffer(kind, elements, size or measured, file), declared, seconds)


def declared_size(dataset: Any) -> int | None:
    """The declared size of a stage's buffer, in elements: negative for all elements; None if tf.data chooses it."""
    if kind_of(dataset) == CACHE:
        return -1
    size = static(TENSORFLOW.buffer_size.get(dataset))
    return None if size is not None and kind_of(dataset) == PREFETCH and size < 2 else size


def _text(name: Any) -> str:
    value = tf.get_static_value(name) if name is not None else None
    return os.fsdecode(value) if isinstance(value, (bytes, str)) else ""


def _at_most(declared: int, count: int) -> int | None:
    """The elements in a full buffer of this declared size, if its source has `count` of them; None if unknown."""
    known = [number for number in (declared, count) if number >= 0]
    return min(known, default=None)


def _is_small(size: int | None, elements: int | None) -> bool:
    """True if the buffer needs no measuring: the size of its elements is known, and it fills quickly."""
    return size is not None and elements is not None and elements < _MANY


def _static_bytes(specification: Any) -> int | None:
    """The size of every element in bytes, from its shapes and dtypes; None if elements may differ in size."""
    parts: Sequence[Any] = tf.nest.flatten(specification)
    if not all(isinstance(part, tf.TensorSpec) and part.shape.is_fully_defined() for part in parts):
        return None
    if any(part.dtype == tf.string or not part.dtype.size for part in parts):
        return None
    return sum(int(math.prod(part.shape)) * int(part.dtype.size) for part in parts)


def _measured(source: Any) -> tuple[int | None, float]:
    """The mean bytes of the first elements, and the seconds to produce one; None and 0 if no element can be read."""
    if source is None:
        return None, 0.0
    sizes: list[int] = []
    until, began, spent = time.monotonic() + _MEASURING_SECONDS, 0.0, 0.0
    try:
        for element in itertools.islice(source, _MOST_MEASURED):
            now = time.monotonic()
            began, spent = (now, 0.0) if not sizes else (began, now - began)
            sizes.append(bytes_of_element(element))
            if now > until:
                break
    except Exception:  # the user's data may raise anything; reading them will say what
        pass
    if not sizes:
        return None, 0.0
    return sum(sizes) // len(sizes), spent / (len(sizes) - 1) if len(sizes) > 1 else 0.0


def bytes_of_element(element: Any) -> int:
    """The bytes of all tensors in an element."""
    return sum(map(_bytes_of_tensor, tf.nest.flatten(element, expand_composites=True)))


def _bytes_of_tensor(part: Any) -> int:
    if getattr(part, "dtype", None) == tf.string:
        return int(tf.reduce_sum(tf.strings.length(part))) + _OF_TEXT * int(tf.size(part))
    return int(math.prod(part.shape)) * int(part.dtype.size or 0)
