"""Kind: what an object holds, how that is encoded, and how it is restored.

Each kind knows four things about an object: its `parts` (the objects in it, and how each is reached), its `content` (a
comparable value that refers to its parts), how to `give_back` a content to an object in place, and how to `build` a
new object. An object that can only be built replaces the old one. An object that can be neither changed nor built is
noted, and lost after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from oomph.resume.objects.values import Value

Part = tuple[str, Any]
"""How a part is reached, in words that are the same in every attempt; and the part."""
Encode = Callable[[Any], Value]
Decode = Callable[..., Any]
"""Called with a value and, if there is one, with what it takes the place of, which may have to stay."""
TypeNamed = Callable[[str], Any]
"""Finds a type by its path in the closed list of what restoration may make; raises CannotGiveBackError."""


_LARGEST, _LONGEST = 1_000_000, 8
"""Clock values are larger, and numbers that are drawn are longer."""


class Setting(NamedTuple):
    """An attribute that a training leaves alone, and that the script sets otherwise than before."""

    name: str
    was: Value
    now: Value


def is_figure(value: object) -> bool:
    """True for a switch, or a number as people write them: neither a clock value nor a number that was drawn."""
    if type(value) is float:
        return len(repr(value)) <= _LONGEST
    return type(value) is bool or (type(value) is int and abs(value) < _LARGEST)


NOTHING = object()
"""Stands for what takes the place of nothing."""


class CannotGiveBackError(Exception):
    """An object of this kind cannot be changed in place, or cannot be built.

    Args:
        trouble: what stands in the way, as the table of reasons knows it.
    """

    def __init__(self, text: str, trouble: str = "") -> None:
        super().__init__(text)
        self.trouble = trouble


class OutsideError(Exception):
    """A reference to something that is not training state: a lock, an open file, a connection."""


class Kind:
    """One kind of object. This base kind holds nothing visible, and never appears to change."""

    tag = "opaque"
    in_place = True
    """True if `give_back` can change an object in place."""
    arrays = False
    """True if the content is large, and stored as a separate array."""

    def parts(self, thing: Any) -> Iterator[Part]:
        """The objects in it."""
        return iter(())

    def content(self, thing: Any, encode: Encode) -> Value:
        """Its content, as a comparable value."""
        return None

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        """Restore its content; raises CannotGiveBackError."""
        raise CannotGiveBackError(type(thing).__name__)

    def since(self, before: Value, now: Value) -> Value:
        """The content to save, where only a part of it has changed since an earlier moment."""
        return now

    def with_settings(self, content: Value, at_begin: Value) -> tuple[Value, list[Setting]]:
        """The content to restore, with what the script sets otherwise now; and those settings."""
        return content, []

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        """A new, empty object that `give_back` fills, so it may refer to itself; raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)

    def build(self, content: Value, decode: Decode) -> Any:
        """A new object of a kind that cannot be filled; raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)


def pairs(flat: Value) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def put_each(
    pairs: Iterable[tuple[Any, Any]], decode: Decode, now: Mapping[Any, Any], put: Callable[[Any, Any], None]
) -> None:
    """Put each value under its name; raises CannotGiveBackError afterwards if some could not be had.

    Values outside the training are left out: the new process already has the right ones.

    Args:
        now: what is there under each name.
    """
    missing, trouble = [], ""
    for name, value in pairs:
        try:
            put(name, decode(value, now.get(name, NOTHING)))
        except OutsideError:
            continue
        except CannotGiveBackError as error:
            missing.append(f"{name}: {error}"[:100])
            trouble = trouble or error.trouble
    if missing:
        raise CannotGiveBackError(", ".join(missing), trouble)
