"""Reads a bounded sample of batches, in the order in which fit would get them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.tensorflow.checking.structure import Leaf, leaves_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Limits:
    """How much is read at most; the first that is reached ends the reading."""

    seconds: float = 2.0
    size: int = 64 << 20
    """In bytes, over all parts."""
    batches: int = 2000
    samples: int = 50_000


USUAL = Limits()


@dataclass
class Read:
    """What was read."""

    batches: int = 0
    rows: int = 0
    is_whole: bool = False
    """Whether the data ended before a limit was reached."""
    failed: str = ""
    arrays: dict[Leaf, list[Array]] = field(default_factory=dict)
    shapes: dict[Leaf, set[tuple[int, ...]]] = field(default_factory=dict)
    first: Any = None
    """The first batch, as it came."""
    seconds: float = 0.0

    def joined(self) -> dict[Leaf, Array]:
        """One array for each part, all batches concatenated; parts whose batches do not fit together are flattened."""
        return {leaf: _joined(arrays) for leaf, arrays in self.arrays.items() if arrays}


def read(batches: Iterable[Any], limits: Limits, is_batched: bool = True) -> Read:
    """The first batches, until a limit is reached or the data end.

    Args:
        batches: what fit iterates over: x, (x, y) or (x, y, sample_weight) in any structure.
        limits: how much of it.
        is_batched: whether the first dimension counts samples; else each element is one.
    """
    found, began, size = Read(), time.monotonic(), 0
    iterator = iter(_without_raising(batches, found))
    for batch in iterator:
        if found.first is None:
            found.first = batch
        rows = 0
        for leaf, value in leaves_of(batch):
            array = as_array(value)
            if array is None:
                continue
            if not is_batched:
                array = array[np.newaxis]
            found.arrays.setdefault(leaf, []).append(array)
            found.shapes.setdefault(leaf, set()).add(tuple(array.shape))
            size += array.nbytes
            rows = rows or (int(array.shape[0]) if array.ndim else 1)
        found.batches += 1
        found.rows += rows
        found.seconds = time.monotonic() - began
        if (
            found.seconds > limits.seconds
            or size > limits.size
            or found.batches >= limits.batches
            or found.rows >= limits.samples
        ):
            return found
    found.is_whole = not found.failed
    return found


def as_array(value: Any) -> Array | None:
    """The values of a tensor, dense; a ragged one is flattened. None for anything without values."""
    if isinstance(value, tf.RaggedTensor):
        value = value.flat_values
    elif isinstance(value, tf.SparseTensor):
        value = value.values
    try:
        array: Array = np.asarray(value)
    except Exception:  # anything may be in a user's batch
        return None
    if array.dtype.kind == "V" or str(array.dtype) == "bfloat16":
        array = array.astype(np.float32)
    elif array.dtype == object:
        array = array.astype(str)
    return array


def _without_raising(batches: Iterable[Any], found: Read) -> Iterator[Any]:
    try:
        yield from batches
    except Exception as error:  # the user's data may raise anything
        found.failed = f"{type(error).__name__}: {error}"


def _joined(arrays: list[Array]) -> Array:
    if len({array.shape[1:] for array in arrays}) == 1 and arrays[0].ndim:
        joined: Array = np.concatenate(arrays)
        return joined
    flat: Array = np.concatenate([array.reshape(-1) for array in arrays])
    return flat
