"""Kind: what is in an object, how that is written down, and how it is put back.

Each kind knows four things of an object: its `parts` (the objects in it, and how each is reached), its `content` (a
comparable value that refers to its parts), how to `give_back` a content to an object in place, and how to `build` an
object that did not exist before. One that can only be built is put where the old one was; one that can neither is
noted, and lost after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oomph.tensorflow.objects.values import Value

Part = tuple[str, Any]
"""How a part is reached, in words that are the same in every attempt, and the part."""
Encode = Callable[[Any], Value]
Decode = Callable[[Value], Any]


class CannotGiveBackError(Exception):
    """An object of this kind cannot be changed in place, or not be built."""


class OutsideError(Exception):
    """What is referred to is no state of the training: a lock, an open file, a connection."""


class Kind:
    """One kind of objects; this one holds nothing that can be looked at, and never seems to change."""

    tag = "opaque"
    in_place = True
    """Whether `give_back` can change an object as it is."""
    arrays = False
    """Whether the content is large, and is kept as an array beside it."""

    def parts(self, thing: Any) -> Iterator[Part]:
        """The objects in it."""
        return iter(())

    def content(self, thing: Any, encode: Encode) -> Value:
        """What is in it, as a value that can be compared."""
        return None

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        """Make it what it was; raises CannotGiveBackError."""
        raise CannotGiveBackError(type(thing).__name__)

    def shell(self, content: Value) -> Any:
        """A new object that `give_back` fills, so that it may refer to itself; raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)

    def build(self, content: Value, decode: Decode) -> Any:
        """A new object of a kind that cannot be filled; raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)


def pairs(flat: Value) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def decoded(pairs: Iterable[tuple[Any, Any]], decode: Decode) -> Iterator[tuple[Any, Any]]:
    """Names and their values, but for what is outside: what the new process has in its place is right there."""
    for name, value in pairs:
        try:
            yield name, decode(value)
        except OutsideError:
            continue
