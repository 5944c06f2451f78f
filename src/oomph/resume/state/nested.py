"""Encodes nested Python values, such as a History or the state that a user's callback returns, as JSON and arrays.

Only numbers, text, None, lists, tuples, dicts, arrays and tensors are allowed: anything else would require unpickling.
Arrays, and long lists of numbers of the same type, are stored separately from the JSON, as bytes.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from oomph.objects import values
from oomph.redaction.redaction import holds_known_secret

_SCALARS = (bool, int, float, str, type(None))
_LARGE_INT = 1 << 1024
_DTYPE = re.compile(r"[<>|=]?[biufcSUMm]\d+(\[\d*[a-zA-Z]+\])?")
"""Matches dtypes that only NumPy supports, or that have a different byte order."""
_ERRORS = (KeyError, TypeError, AttributeError, IndexError, OverflowError, struct.error)


def encode(value: Any, under: str) -> tuple[Any, dict[str, Any]]:
    """Return a nested value with references in place of arrays, and the arrays, whose names start with `under`.

    Raises TypeError, naming the type, for a value that is not allowed.
    """
    encoder = _Encoder(under)
    return encoder.encoded(value), encoder.arrays


def decode(document: Any, arrays: dict[str, Any], under: str = "") -> Any:
    """Decode a value that was encoded. Raises ValueError for any other document.

    The names in `arrays` do not include the common prefix `under`.
    """
    try:
        return _Decoder(arrays, under).decoded(document)
    except _ERRORS as error:
        raise ValueError(f"not a saved value: {error}") from error


class _Encoder:
    def __init__(self, under: str) -> None:
        self._under = under
        self.arrays: dict[str, Any] = {}

    def encoded(self, item: Any) -> Any:
        if isinstance(item, str) and holds_known_secret(item):
            raise TypeError("it contains a key or password, which is not saved")
        if type(item) in _SCALARS:
            return _plain(item)
        if isinstance(item, np.generic):
            return {"scalar": self._array(np.asarray(item))}
        if isinstance(item, _SCALARS):  # an instance of a subclass, such as an IntEnum
            kind: Any = next(kind for kind in _SCALARS if isinstance(item, kind))
            return _plain(kind(item))
        if isinstance(item, tf.Tensor) and item.dtype != tf.string:
            return {"tensor": self._array(np.asarray(item.numpy()))}
        if type(item) in (np.ndarray, np.memmap):
            return self._array(np.asarray(item))
        if _holds_numbers(item):
            return self._array(np.asarray(item.numpy()))
        if isinstance(item, (list, tuple)):
            return self._series(item)
        if isinstance(item, dict):
            return {"dict": [[self.encoded(key), self.encoded(each)] for key, each in item.items()]}
        raise TypeError(f"{type(item).__name__} is not a number, text, list, tuple, dict or array")

    def _series(self, items: Sequence[Any]) -> Any:
        kind = "tuple" if type(items) is tuple else "list"
        numbers = values.number_array(items)
        if numbers is None:
            return {kind: [self.encoded(each) for each in items]}
        own = "scalars" if isinstance(items[0], np.generic) else "numbers"
        return {kind: {own: self._array(numbers)}}

    def _array(self, array: Any) -> Any:
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            return {"transposed": self._array(array.T)}
        name = f"{self._under}{len(self.arrays)}"
        if values.is_of_tensorflow(array.dtype):
            self.arrays[name] = array
            return {"array": name}
        if not _DTYPE.fullmatch(array.dtype.str):
            raise TypeError(f"an array of {array.dtype.name} cannot be saved")
        self.arrays[name] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return {"array": [name, array.dtype.str, list(array.shape)]}


class _Decoder:
    def __init__(self, arrays: dict[str, Any], under: str) -> None:
        self._arrays, self._under = arrays, under

    def decoded(self, document: Any) -> Any:
        if not isinstance(document, dict):
            return document
        ((kind, content),) = document.items()
        match kind:
            case "float":
                return struct.unpack(">d", bytes.fromhex(content))[0]
            case "int":
                return int(content, 16)
            case "array" | "transposed":
                return self._array(document)
            case "tensor":
                return tf.constant(self._array(content))
            case "scalar":
                return self._array(content)[()]
            case "dict":
                return {self.decoded(key): self.decoded(each) for key, each in content}
            case "list" | "tuple":
                items = self._items(content)
                return tuple(items) if kind == "tuple" else items
        raise ValueError(f"not a saved value: {kind}")

    def _items(self, content: Any) -> list[Any]:
        if isinstance(content, list):
            return [self.decoded(each) for each in content]
        ((kind, array),) = content.items()
        found = self._array(array)
        return list(found) if kind == "scalars" else list(found.tolist())

    def _array(self, document: Any) -> Any:
        ((kind, content),) = document.items()
        if kind == "transposed":
            return self._array(content).T
        if isinstance(content, str):
            return self._arrays[content.removeprefix(self._under)]
        name, dtype, shape = content
        if not _DTYPE.fullmatch(dtype):
            raise ValueError(f"not a saved value: an array of {dtype}")
        return self._arrays[name.removeprefix(self._under)].view(np.dtype(dtype)).reshape(shape)


def _plain(item: Any) -> Any:
    if type(item) is float and not math.isfinite(item):
        return {"float": struct.pack(">d", item).hex()}
    return {"int": hex(item)} if type(item) is int and abs(item) >= _LARGE_INT else item


def _holds_numbers(item: Any) -> bool:
    """True if an item is a variable, or a tensor from another library."""
    return hasattr(item, "numpy") and not isinstance(item, (np.ndarray, tf.Tensor))
