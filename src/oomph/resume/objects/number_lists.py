"""Long lists of numbers of one type, as arrays: they take as many bytes as the numbers, and restore their type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.resume.objects import values
from oomph.resume.objects.values import PLAIN, Value

_LONG = 32


def as_array(items: Sequence[Any]) -> Any:
    """A long list of numbers of one type as an array; None for other lists, or if an array cannot hold them."""
    kinds = set(map(type, items)) if len(items) >= _LONG else set()
    kind: Any = kinds.pop() if len(kinds) == 1 else None
    if kind is float:
        return np.array(items, np.float64)
    if kind is int:
        try:
            return np.array(items, np.int64)
        except OverflowError:
            return None
    is_number = kind is not None and issubclass(kind, np.generic) and is_of_tensorflow(items[0].dtype)
    return np.array(items, items[0].dtype) if is_number else None


def is_of_tensorflow(dtype: Any) -> bool:
    """True for a numeric TensorFlow dtype in this machine's byte order."""
    if dtype.kind in "OSUMm" or not dtype.isnative:
        return False
    try:
        return bool(tf.as_dtype(dtype.name).as_numpy_dtype == dtype)
    except TypeError:
        return False


def encoded(items: Sequence[Any]) -> Value:
    """A long list of numbers of one type as a value; None for any other list."""
    array = as_array(items)
    if array is None:
        return None
    return ("scalars" if isinstance(items[0], np.generic) else "numbers", values.text_of(array.dtype), array.tobytes())


def decoded(value: Value) -> list[Any] | None:
    """The list that `encoded` encoded; None for anything else."""
    if (
        type(value) is not tuple
        or len(value) != 3
        or value[0] not in ("scalars", "numbers")
        or type(value[2]) is not bytes
    ):
        return None
    array = np.frombuffer(value[2], values.dtype_of(value[1]))
    return list(array) if value[0] == "scalars" else list(array.tolist())


def are_values(items: Iterable[Any]) -> bool:
    """True if no item has an identity, so that none needs to be walked."""
    kinds = set(map(type, items)) - PLAIN
    return all(issubclass(kind, np.generic) and kind is not np.void for kind in kinds)
