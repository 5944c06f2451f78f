"""Iterators that Python can recreate at their position, and generators."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from oomph.tensorflow.objects.kind import CannotGiveBackError, Decode, Encode, Kind, Part
from oomph.tensorflow.objects.values import CannotEncodeError, Value

_KINDS = (
    *(enumerate, zip, map, filter, itertools.count, itertools.cycle, itertools.repeat, itertools.islice),
    *(itertools.chain, itertools.starmap, itertools.zip_longest, itertools.accumulate, itertools.compress),
    *(itertools.takewhile, itertools.dropwhile, itertools.filterfalse, itertools.product, itertools.permutations),
    *(itertools.combinations, itertools.combinations_with_replacement),
)
MAKERS: dict[str, Callable[..., Any]] = {
    "iter": iter,
    "reversed": reversed,
    **{kind.__name__: kind for kind in _KINDS},
}


class BuiltinIterator(Kind):
    """An iterator that Python can take apart: over a list, `count`, `cycle`, `enumerate`, `zip`."""

    tag = "iterator"
    in_place = False

    def parts(self, thing: Any) -> Iterator[Part]:
        _, arguments, *state = _reduced(thing)
        yield from ((f"[{number}]", each) for number, each in enumerate((*arguments, *state)))

    def content(self, thing: Any, encode: Encode) -> Value:
        made_by, arguments, *state = _reduced(thing)
        return (made_by, tuple(map(encode, arguments)), *map(encode, state[:1]))

    def build(self, content: Value, decode: Decode) -> Any:
        made_by, arguments, *state = content
        if made_by not in MAKERS:
            raise CannotGiveBackError(str(made_by))
        made = MAKERS[made_by](*map(decode, arguments))
        settled = decode(state[0]) if state else None
        if settled is not None:
            made.__setstate__(settled)
        return made


class UnseenIterator(Kind):
    """An iterator that does not reveal its position."""

    tag = "unseen iterator"

    def content(self, thing: Any, encode: Encode) -> Value:
        raise CannotEncodeError(f"a {type(thing).__name__}, which does not reveal its position")


class Generator(Kind):
    """A Python generator. Its frame can be read, and a new generator can be run until its frame holds the same."""

    tag = "generator"
    _most_steps = 1_000_000

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
        raise CannotGiveBackError("a generator")


def _reduced(thing: Any) -> tuple[Any, ...]:
    """How Python would recreate the iterator: its maker's name, the arguments, and a state."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # removed from itertools in Python 3.14
        made_by, arguments, *state = thing.__reduce__()
    if made_by.__name__ not in MAKERS:
        raise CannotEncodeError(type(thing).__name__)
    return made_by.__name__, arguments, *state
