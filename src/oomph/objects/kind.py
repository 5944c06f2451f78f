"""Defines `Kind`: what an object contains, and how its content is encoded and restored.

Each kind knows four things about an object: its `parts` (the objects in it, and how each is reached), its `content` (a
comparable value that refers to its parts), how to `give_back` the content to an object in place, and how to `build` a
new object. An object that cannot be changed in place is rebuilt, and the new object replaces the old one. An object
that can be neither changed nor built is recorded, and is lost after a restart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from oomph.objects.values import Value
from oomph.terminal.wrapping import shortened

Part = tuple[str, Any]
"""The path to a part, which is the same in every attempt, and the part itself."""
Encode = Callable[[Any], Value]
Decode = Callable[..., Any]
"""Called with a value and, if there is one, the object currently in its place, which may have to be kept."""
TypeNamed = Callable[[str], Any]
"""Finds a type by its path in the closed list of types that may be created. Raises CannotGiveBackError."""


_LARGEST, _LONGEST = 1_000_000, 8
"""Integers this large are treated as clock values, and floats with more characters as random numbers."""
_MOST_NAMED = 100
"""A mapping with more names than this is treated as data, not as settings."""
_SAME = "same"
"""Marks a number or boolean that has not changed since training started."""


class Figure(NamedTuple):
    """A named number or boolean in an object, which may be a setting."""

    name: str
    where: str
    """The path from the object to this value."""
    value: Value


class Setting(NamedTuple):
    """A number or boolean that training did not change, and that the script now sets differently."""

    name: str
    where: str
    """The path from the object to this value."""
    was: Value
    now: Value


def is_figure(value: object) -> bool:
    """True if a value is a boolean or a number that a person would write, not a clock value or a random number."""
    if type(value) is float:
        return len(repr(value)) <= _LONGEST
    return type(value) is bool or (type(value) is int and abs(value) < _LARGEST and value not in _of_this_process())


def _of_this_process() -> tuple[int, int]:
    return os.getpid(), os.getppid()


NOTHING = object()
"""Represents the absence of a current value."""


class CannotGiveBackError(Exception):
    """Raised if an object cannot be changed in place, or cannot be built.

    Args:
        trouble: the obstacle, as a key in the table of reasons.
    """

    def __init__(self, text: str, trouble: str = "") -> None:
        super().__init__(text)
        self.trouble = trouble


class OutsideError(Exception):
    """Raised for a reference to something outside the training state: a lock, an open file, a connection."""


class Kind:
    """One kind of object. This base kind has no visible content, and never appears to change."""

    tag = "opaque"
    in_place = True
    """True if `give_back` can change an object in place."""
    arrays = False
    """True if the content is large and is stored as a separate array."""
    named_from: int | None = None
    """The index in the content from which names and values alternate, or None if there are no names."""

    def at(self, name: str) -> str:
        """Return the path from the object to the value with this name."""
        return f".{name}"

    def parts(self, thing: Any) -> Iterator[Part]:
        """Yield the objects that an object contains, each with its path."""
        return iter(())

    def content(self, thing: Any, encode: Encode) -> Value:
        """Return an object's content as a comparable value."""
        return None

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        """Restore an object's content in place. Raises CannotGiveBackError if that is impossible."""
        raise CannotGiveBackError(type(thing).__name__)

    def figures(self, content: Value) -> Iterator[Figure]:
        """Yield the numbers and booleans in an object's content."""
        named = self._named(content).items()
        return (Figure(name, self.at(name), value) for name, value in named if is_figure(value))

    def since(self, before: Value, now: Value) -> Value:
        """Return the content to save for a changed object, with its unchanged numbers and booleans marked."""
        old = self._named(before)
        found = self.figures(now)
        same = {name for name, _, value in found if type(old.get(name)) is type(value) and old[name] == value}
        return self._with_values(now, lambda name, value: (_SAME, value) if name in same else value) if same else now

    def with_settings(self, content: Value, at_begin: Value) -> tuple[Value, list[Setting]]:
        """Return the content to restore, which keeps values changed by the script, and a list of those values."""
        begun, others = self._named(at_begin), list[Setting]()

        def chosen(name: Any, value: Value) -> Value:
            if type(value) is not tuple or len(value) != 2 or value[0] != _SAME:
                return value
            was, now = value[1], begun.get(name) if type(name) is str else None
            if type(now) is not type(was) or not is_figure(now) or now == was:
                return was
            others.append(Setting(name, self.at(name), was, now))
            return now

        return self._with_values(content, chosen), others

    def _named(self, content: Value) -> dict[str, Value]:
        """Return the values in the content whose names are strings, keyed by name."""
        if self.named_from is None or not 0 < len(content) - self.named_from <= 2 * _MOST_NAMED:
            return {}
        return {name: value for name, value in pairs(content[self.named_from :]) if type(name) is str}

    def _with_values(self, content: Value, chosen: Callable[[Any, Value], Value]) -> Value:
        """Return the content with each named value replaced by the result of `chosen(name, value)`."""
        if self.named_from is None:
            return content
        values = ((name, chosen(name, value)) for name, value in pairs(content[self.named_from :]))
        return (*content[: self.named_from], *(each for pair in values for each in pair))

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        """Create an empty object for `give_back` to fill, so it may refer to itself. Raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)

    def build(self, content: Value, decode: Decode) -> Any:
        """Build a new object of a kind that cannot be filled later. Raises CannotGiveBackError."""
        raise CannotGiveBackError(self.tag)


def pairs(flat: Value) -> Iterator[tuple[Any, Any]]:
    return zip(flat[::2], flat[1::2], strict=True)


def put_each(
    pairs: Iterable[tuple[Any, Any]], decode: Decode, now: Mapping[Any, Any], put: Callable[[Any, Any], None]
) -> None:
    """Store each value under its name. If any of them failed, raises CannotGiveBackError at the end.

    Values outside the training state are left out, since the new process already has the right ones.

    Args:
        now: the current values, by name.
    """
    missing, trouble = [], ""
    for name, value in pairs:
        try:
            put(name, decode(value, now.get(name, NOTHING)))
        except OutsideError:
            continue
        except CannotGiveBackError as error:
            missing.append(shortened(f"{name}: {error}", 100))
            trouble = trouble or error.trouble
    if missing:
        raise CannotGiveBackError(", ".join(missing), trouble)
