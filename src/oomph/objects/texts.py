"""Finds the text in an object: a foreign checkpoint may not introduce any that this process does not already hold.

The script opens, calls or runs what it finds in its own attributes, lists, arrays and tables, and a string does not
reveal what the script does with it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np

from oomph.keras_bridge import code


class Among(tuple[Any, ...]):
    """The items of a container, any of which a new item may replace."""

    __slots__ = ()


class _Same:
    """Wraps an object so that it is compared by identity."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def texts_in(thing: Any) -> Iterator[Any]:
    """Yield the strings in an object: the object itself, or the strings in a tuple, array or text tensor."""
    kind: Any = type(thing)
    if issubclass(kind, (str, bytes, PurePath)):
        yield thing
    elif issubclass(kind, (tuple, frozenset)):
        for each in (tuple if issubclass(kind, tuple) else frozenset).__iter__(thing):
            yield from texts_in(each)
    elif issubclass(kind, np.ndarray):
        yield from _texts_of_array(thing)
    elif _is_tensor(kind) and thing.dtype.name == "string":
        yield from _texts_of_array(np.asarray(thing.numpy(), dtype=object))


def _is_tensor(kind: type) -> bool:
    return any(base.__name__ == "EagerTensor" and code.is_of_library(base) for base in kind.__mro__)


def _texts_of_array(array: Any) -> Iterator[Any]:
    if array.dtype.kind in "SU":
        yield from set(np.ravel(array).tolist())
    elif array.dtype.kind == "O":
        yield from (each for each in np.ravel(array).tolist() if issubclass(type(each), (str, bytes)))


def holds_all(old: Any, thing: Any) -> bool:
    """True if `old` contains every string in an object."""
    return all(text in _held_in(_Same(old)) for text in map(os.fsdecode, texts_in(thing)) if text)


@functools.lru_cache(maxsize=1)
def _held_in(same: _Same) -> frozenset[str]:
    return frozenset(map(os.fsdecode, texts_in(same.thing)))
