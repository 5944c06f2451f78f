"""A digest of many objects at once. It detects a change among objects too numerous to capture."""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import Container, Iterable, Iterator
from typing import Any

import numpy as np

from oomph.keras_bridge import fingerprints
from oomph.resume.objects import values

_CHUNK = 10_000


class _Unseen(Exception):
    """An object that cannot be inspected."""


def digest(things: Iterable[Any], known: Container[int], seconds: float = 2.0) -> bytes | None:
    """A digest of objects and their contents; None if it takes too long or an object cannot be inspected.

    Each container is visited once, so shared and circular containers terminate.

    Args:
        things: built-in containers and arrays of numbers. Values, also those in tuples, are skipped: they are
            captured with their holder.
        known: the `id`s of captured objects, which need no digest.
        seconds: the time limit.
    """
    found, until = hashlib.blake2b(digest_size=16), time.monotonic() + seconds
    numbers: dict[int, int] = {}
    waiting, tokens = deque(_with_an_identity(things)), list[Any]()
    while waiting:
        thing = waiting.popleft()
        kind = type(thing)
        if kind in values.PLAIN:
            tokens.append(thing)
        elif id(thing) in numbers:
            tokens.append(("again", numbers[id(thing)]))
        elif id(thing) not in known:
            if kind in _CONTAINERS:
                numbers[id(thing)] = len(numbers)
                waiting.extend(_items(thing))
            try:
                tokens.append(_token(thing))
            except _Unseen:
                return None
        if len(tokens) >= _CHUNK or not waiting:
            found.update(repr(tokens).encode(errors="backslashreplace"))
            tokens.clear()
            if time.monotonic() > until:
                return None
    return found.digest()


def _with_an_identity(things: Iterable[Any]) -> Iterator[Any]:
    waiting, seen = deque(things), set[int]()
    while waiting:
        thing = waiting.popleft()
        if type(thing) not in (tuple, frozenset):
            if not values.is_value(thing):
                yield thing
        elif id(thing) not in seen:
            seen.add(id(thing))
            waiting.extend(_items(thing))


def _token(thing: Any) -> Any:
    """A comparable description of an object without its parts: a container's type and length, or a value."""
    kind = type(thing)
    if kind in _CONTAINERS:
        return (kind.__name__, len(thing))
    if kind is np.ndarray and thing.dtype.kind != "O":
        return (fingerprints.of_array(thing),)
    if values.is_value(thing):
        return (values.encode(thing),)
    raise _Unseen


def _items(thing: Any) -> Iterator[Any]:
    if type(thing) is dict:
        yield from (each for item in thing.items() for each in item)
    elif type(thing) in (set, frozenset):
        yield from sorted(thing, key=repr)  # their order differs between processes
    else:
        yield from thing


_CONTAINERS = frozenset((list, tuple, dict, set, frozenset, deque))
