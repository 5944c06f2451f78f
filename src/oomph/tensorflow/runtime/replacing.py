"""A method of one object replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_NONE = object()


@contextmanager
def replaced(thing: Any, name: str, replacement: Any) -> Iterator[None]:
    """Within the block, that method of that one object is `replacement`; the class and others are untouched.

    An attribute of that name which the object had itself is there again afterwards.
    """
    before = getattr(thing, "__dict__", {}).get(name, _NONE)
    object.__setattr__(thing, name, replacement)  # past Keras' attribute tracking
    try:
        yield
    finally:
        if before is _NONE:
            object.__delattr__(thing, name)
        else:
            object.__setattr__(thing, name, before)
