"""Iterators that Python can recreate at their current position, and generators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import tensorflow as tf

from oomph.objects.admission import is_called
from oomph.objects.kind import CannotGiveBackError, Decode, Encode, Kind, Part
from oomph.objects.values import HARMLESS_IDS, CannotEncodeError, Value
from oomph.protocol.reason_table import GENERATOR
from oomph.script.quiet import without_warnings

_OVER_ITERABLES = (enumerate, zip, itertools.cycle, itertools.islice, itertools.chain, itertools.zip_longest)
_CALLING = (
    *(map, filter, itertools.starmap, itertools.accumulate),
    *(itertools.takewhile, itertools.dropwhile, itertools.filterfalse),
)
"""Iterator types that call a function, which must be the one that this process's iterator calls."""
_EAGER = (
    *(itertools.product, itertools.permutations),
    *(itertools.combinations, itertools.combinations_with_replacement),
)
"""Iterator types that read their whole source at once, so that the source must be a tuple."""
_OVER_VALUES = (itertools.count, itertools.repeat)
_LAZY = frozenset({"iter", "reversed", *(kind.__name__ for kind in (*_OVER_ITERABLES, *_CALLING, itertools.compress))})
MAKERS: dict[str, Callable[..., Any]] = {
    "iter": iter,
    "reversed": reversed,
    **{kind.__name__: kind for kind in (*_OVER_ITERABLES, *_CALLING, *_EAGER, *_OVER_VALUES, itertools.compress)},
}
_LONGEST_COMBINATION = 10_000


class BuiltinIterator(Kind):
    """An iterator that Python can take apart, such as one over a list, `count`, `cycle`, `enumerate` or `zip`."""

    tag = "iterator"
    in_place = False

    def parts(self, thing: Any) -> Iterator[Part]:
        _, arguments, *state = _reduced(thing)
        yield from ((f"[{number}]", each) for number, each in enumerate((*arguments, *state)))

    def content(self, thing: Any, encode: Encode) -> Value:
        made_by, arguments, *state = _reduced(thing)
        return (made_by, tuple(map(encode, arguments)), *map(encode, state[:1]))

    def build(self, content: Value, decode: Decode) -> Any:
        made_by, encoded, *state = content
        if type(made_by) is not str or made_by not in MAKERS:
            raise CannotGiveBackError(str(made_by))
        arguments = [decode(each) for each in encoded]
        if not _runs_nothing(made_by, arguments):
            raise CannotGiveBackError(f"a {made_by} whose arguments would have to be read or called")
        made = MAKERS[made_by](*arguments)
        settled = decode(state[0]) if state else None
        if settled is not None and type(made).__module__ in ("builtins", "itertools"):
            made.__setstate__(settled)
        return made


class UnseenIterator(Kind):
    """An iterator that does not reveal its position."""

    tag = "unseen iterator"

    def content(self, thing: Any, encode: Encode) -> Value:
        raise CannotEncodeError(f"a {type(thing).__name__}, which does not reveal its position")


class Generator(Kind):
    """A Python generator. Its frame can be read, and a new generator can be run until its frame has the same values."""

    tag = "generator"

    def parts(self, thing: Any) -> Iterator[Part]:
        frame = thing.gi_frame
        if frame is not None:
            yield from ((f" in {thing.__name__}: {name}", value) for name, value in dict(frame.f_locals).items())

    def content(self, thing: Any, encode: Encode) -> Value:
        frame = thing.gi_frame
        if frame is None:
            return ("ended",)
        local = dict(frame.f_locals)
        return (frame.f_lasti, *(each for name, value in local.items() for each in (name, encode(value))))

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        raise CannotGiveBackError("a generator", GENERATOR)


def _runs_nothing(made_by: str, arguments: list[Any]) -> bool:
    """True if creating the iterator runs no Python code and consumes nothing from its sources."""
    if made_by in ("iter", "reversed") and len(arguments) != 1:
        return False  # `iter(function, sentinel)` calls the function
    if made_by in _LAZY:
        return all(_is_no_iterable(each) or _is_iterated_in_c(each, made_by) for each in arguments)
    if made_by == "repeat":
        return all(type(each) is int for each in arguments[1:])
    if made_by == "count":
        return all(type(each) in (int, float, complex) or type(each).__module__ == "numpy" for each in arguments)
    return all(type(each) is tuple or (type(each) is int and each <= _LONGEST_COMBINATION) for each in arguments)


def _is_no_iterable(thing: Any) -> bool:
    """True if an iterator's argument is a number or a function."""
    return type(thing) in (int, bool, type(None)) or is_called(thing) or id(thing) in HARMLESS_IDS


def _is_iterated_in_c(thing: Any, made_by: str) -> bool:
    """True if iterating over an object runs no Python code of the object's own."""
    kind: Any = type(thing)
    if issubclass(kind, tf.data.Iterator):
        return made_by != "reversed"
    names = ("__reversed__", "__len__", "__getitem__") if made_by == "reversed" else ("__iter__", "__getitem__")
    methods = [getattr(kind, name, None) for name in names]
    return any(method is not None for method in methods) and not any(type(each) is FunctionType for each in methods)


def _reduced(thing: Any) -> tuple[Any, ...]:
    """Return what Python needs to recreate the iterator: the name of its constructor, the arguments, and a state."""
    with without_warnings(DeprecationWarning):  # removed from itertools in Python 3.14
        made_by, arguments, *state = thing.__reduce__()
    if made_by.__name__ not in MAKERS:
        raise CannotEncodeError(type(thing).__name__)
    return made_by.__name__, arguments, *state
