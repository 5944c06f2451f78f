"""Dicts, lists, sets, deques and bytearrays."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from oomph.objects import values
from oomph.objects.admission import may_be_hashed, may_lose
from oomph.objects.kind import (
    NOTHING,
    CannotGiveBackError,
    Decode,
    Encode,
    Kind,
    OutsideError,
    Part,
    TypeNamed,
    pairs,
)
from oomph.objects.texts import Among
from oomph.objects.values import PLAIN, Value
from oomph.terminal.wrapping import shortened

_SMALLEST_ADDRESS = 1 << 32


class Id(int):
    """A number that may be the `id` of an object, and would then differ in another process."""


_LACKS = "it contains functions, and the checkpoint was not written here"


class Mapping(Kind):
    """A dict, or a dict subclass from `collections`."""

    tag = "mapping"
    named_from = 2
    _bases = (collections.OrderedDict, collections.defaultdict, collections.Counter, dict)

    def at(self, name: str) -> str:
        return f"[{name!r}]"

    def parts(self, thing: Any) -> Iterator[Part]:
        if type(thing) is collections.defaultdict:
            yield " factory", thing.default_factory
        if not all_plain(dict.keys(thing)) or not all_plain(dict.values(thing)):
            for number, (key, value) in enumerate(self._items_of(thing)):
                at = f"[{key!r}]" if type(key) in PLAIN else f"[item {number}]"
                if type(key) not in PLAIN:
                    yield f"[key {number}]", key
                yield at, value

    def content(self, thing: Any, encode: Encode) -> Value:
        base = self._base(type(thing))
        factory = encode(thing.default_factory) if base is collections.defaultdict else None
        flat = itertools.chain.from_iterable(self._items_of(thing))
        if any(map(_may_be_an_id, dict.keys(thing))):
            return (base.__name__, factory, *map(encode, itertools.chain.from_iterable(self._with_ids(thing))))
        if all_plain(dict.keys(thing)) and all_plain(dict.values(thing)):
            return (base.__name__, factory, *flat)
        return (base.__name__, factory, *map(encode, flat))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        base = self._base(type(thing))
        items, missing, trouble = self._items(content, decode, thing)
        kept = {key for key, _ in items}
        if not may_lose(value for key, value in self._items_of(thing) if key not in kept):
            raise CannotGiveBackError(_LACKS)
        if base is collections.defaultdict:
            thing.default_factory = decode(content[1], thing.default_factory)
        base.clear(thing)
        for key, value in items:
            base.__setitem__(thing, key, value)
        if missing:
            raise CannotGiveBackError(", ".join(missing), trouble)

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        base = next((base for base in self._bases if base.__name__ == content[0]), None)
        if base is None:
            raise CannotGiveBackError(str(content[0]))
        return base()

    def _with_ids(self, thing: Any) -> Iterator[tuple[Any, Any]]:
        for key, value in self._items_of(thing):
            yield (Id(key) if _may_be_an_id(key) else key), value

    def _items_of(self, thing: Any) -> list[tuple[Any, Any]]:
        """Return a mapping's items in order. An OrderedDict stores its order separately."""
        return list(
            collections.OrderedDict.items(thing) if isinstance(thing, collections.OrderedDict) else dict.items(thing)
        )

    def _items(self, content: Value, decode: Decode, thing: Any) -> tuple[list[tuple[Any, Any]], list[str], str]:
        """Return the items to set, and why some cannot be restored; those keep their current values."""
        items, missing, trouble, keys = [], [], "", Among(dict.keys(thing))
        for encoded, value in pairs(content[2:]):
            key = hashed(decode(encoded, keys))
            old = dict.get(thing, key, NOTHING)
            try:
                items.append((key, decode(value, old)))
            except (OutsideError, CannotGiveBackError) as error:
                items += [] if old is NOTHING else [(key, old)]
                if isinstance(error, CannotGiveBackError):
                    missing.append(shortened(f"{key!r}: {error}", 100))
                    trouble = trouble or error.trouble
        return items, missing, trouble

    def _base(self, kind: type) -> Any:
        return next(base for base in self._bases if issubclass(kind, base))


class Sequence(Kind):
    """A list, deque or set: a container that consists only of its items."""

    tag = "sequence"

    def __init__(self, base: Any, empty_and_fill: Callable[[Any, list[Any]], None]) -> None:
        self._base, self._fill = base, empty_and_fill
        self.tag = base.__name__

    def parts(self, thing: Any) -> Iterator[Part]:
        items = self._items(thing)
        if not values.are_values(items):
            yield from ((f"[{number}]", item) for number, item in enumerate(items))

    def content(self, thing: Any, encode: Encode) -> Value:
        items = self._items(thing)
        limit = thing.maxlen if self._base is collections.deque else None
        numbers = values.encoded_numbers(items)
        if numbers is not None:
            return (limit, numbers)
        return (limit, *(items if all_plain(items) else map(encode, items)))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        numbers = values.decoded_numbers(content[1]) if len(content) == 2 else None
        held = Among(self._base.__iter__(thing))
        if not may_lose(held):
            raise CannotGiveBackError(_LACKS)
        old = held if numbers is None else Among()
        self._fill(thing, [decode(each, old) for each in content[1:]] if numbers is None else numbers)

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        base: Any = self._base
        return base(maxlen=content[0]) if base is collections.deque else base()

    def _items(self, thing: Any) -> list[Any]:
        items = list(self._base.__iter__(thing))
        if self._base is set and all_plain(items):
            items.sort(key=repr)  # a set has no order
        return items


def fill_list(thing: Any, items: list[Any]) -> None:
    list.__setitem__(thing, slice(None), items)


def fill_deque(thing: Any, items: list[Any]) -> None:
    collections.deque.clear(thing)
    collections.deque.extend(thing, items)


def fill_set(thing: Any, items: list[Any]) -> None:
    known = [hashed(item) for item in items]
    set.clear(thing)
    set.update(thing, known)


class WeakKeys(Kind):
    """A `weakref.WeakKeyDictionary`."""

    tag = "weak keys"

    def parts(self, thing: Any) -> Iterator[Part]:
        for number, (key, value) in enumerate(thing.items()):
            yield f"[key {number}]", key
            yield f"[item {number}]", value

    def content(self, thing: Any, encode: Encode) -> Value:
        return tuple(encode(each) for item in thing.items() for each in item)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        old = Among(each for item in thing.items() for each in item)
        items = [(hashed(decode(key, old)), decode(value, old)) for key, value in pairs(content)]
        thing.clear()
        for key, value in items:
            thing[key] = value


class Bytes(Kind):
    """A bytearray."""

    tag = "bytearray"

    def content(self, thing: Any, encode: Encode) -> Value:
        return bytes(thing)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        if type(content) is not bytes:
            raise CannotGiveBackError("not bytes")
        thing[:] = decode(content, bytes(thing))

    def shell(self, content: Value, type_named: TypeNamed) -> Any:
        return bytearray()


def hashed(key: Any) -> Any:
    """Return the key. Raises CannotGiveBackError if hashing it would run the script's code."""
    if not may_be_hashed(key):
        raise CannotGiveBackError(f"a key whose hash is computed by {type(key).__name__}")
    return key


def _may_be_an_id(key: Any) -> bool:
    return type(key) is int and key > _SMALLEST_ADDRESS


def all_plain(items: Any) -> bool:
    return PLAIN.issuperset(map(type, items))
