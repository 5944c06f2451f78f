"""Event: one line of a journal. Both processes."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_type_hints

from oomph.files.conforming import conforms
from oomph.journal.events import UnknownEvent
from oomph.journal.fact import BY_NAME, Fact

SCHEMA = 1
_SMALL = 2**62
_MOST_FIELDS, _LONGEST_NAME = 200, 200
_MOST_UNKNOWN = 10_000
"""Limit of an unknown event's field, in bytes of memory."""
_FLOATS = (float, float | None)
"""JSON has NaN and infinity only in words."""
_OBJECT, _PLACE = 64, 16
"""About the memory of an object, and of a place for one in another, in bytes."""


class Event(NamedTuple):
    """One event: its fact, and its position in the order of its writer.

    Args:
        fact: one of the classes of `events.py`.
    """

    fact: Fact
    attempt: int = 0
    rank: int = 0
    role: str = ""
    sequence: int = 0
    time: float = 0.0

    @property
    def name(self) -> str:
        """Its name in the journal."""
        return self.fact.name if isinstance(self.fact, UnknownEvent) else type(self.fact).event

    @property
    def data(self) -> Mapping[str, Any]:
        """The fields of the fact, as the journal has them."""
        return fields_of(self.fact)

    def to_json(self) -> str:
        """The event as one line of JSON, without the newline."""
        document = {"schema": SCHEMA, "event": self.name, "attempt": self.attempt, "rank": self.rank}
        document |= {"role": self.role, "sequence": self.sequence, "time": self.time, "data": self.data}
        try:
            return _as_json(document)
        except ValueError:
            return _as_json(_without_nan(document))

    @classmethod
    def named(cls, name: str, data: Mapping[str, Any], *place: Any, **places: Any) -> Event:
        """The event of that name with these fields, as a journal has them. Damaged fields have their default."""
        return cls(fact_of(name, data), *place, **places)

    @classmethod
    def from_json(cls, line: str) -> Event:
        """The event of one journal line; raises ValueError when the line is not an event."""
        return event_of(json.loads(line))


def event_of(document: Any) -> Event:
    """The event that a document is; raises ValueError when it is none."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError("not an event of this schema")
    if not _has_frame(document):
        raise ValueError("not an event")
    of = document.__getitem__
    fact = fact_of(of("event"), of("data"))
    return Event(fact, of("attempt"), of("rank"), of("role"), of("sequence"), float(of("time")))


def _has_frame(document: Mapping[str, Any]) -> bool:
    of = document.get
    return (
        isinstance(of("event"), str)
        and isinstance(of("role"), str)
        and isinstance(of("data"), dict)
        and conforms(of("attempt"), int)
        and conforms(of("rank"), int)
        and conforms(of("sequence"), int)
        and conforms(of("time"), float)
    )


def fields_of(fact: Fact) -> Mapping[str, Any]:
    """The fields of a fact by name, without those that are None if nothing is said of them."""
    if isinstance(fact, UnknownEvent):
        return fact.fields
    defaults = type(fact).defaults
    return {name: value for name, value in fact.items() if value is not None or defaults[name] is not None}


def fact_of(name: str, data: Mapping[str, Any]) -> Fact:
    """The fact with these fields; one of an unknown name keeps those that are small."""
    kind = BY_NAME.get(name)
    if kind is None:
        has_too_many = len(data) > _MOST_FIELDS
        kept = {} if has_too_many else {each: data[each] for each in data if _is_small(each, data[each])}
        return UnknownEvent(name=name, fields=kept)
    return kind.of_values(_values(_types_of(kind), data))


def _values(types: tuple[tuple[str, Any, Any], ...], data: Mapping[str, Any]) -> Iterator[Any]:
    for name, kind, default in types:
        value = data.get(name, default)
        if value is default or not _is_sound(value, kind):
            yield default
        else:
            yield float(value) if type(value) is str and kind in _FLOATS else value


@functools.cache
def _types_of(kind: type[Fact]) -> tuple[tuple[str, Any, Any], ...]:
    """Name, type and default of each field. Readers of a journal rely on the types."""
    hints = get_type_hints(kind)
    return tuple((name, hints[name], default) for name, default in kind.defaults.items())


def _is_sound(value: object, kind: Any) -> bool:
    """A faster `conforms`: most values are plain words and small numbers, and a journal has millions of them."""
    own = type(value)
    if own is kind and (own is str or own is bool):
        return True
    if own is int and (kind is int or kind is float) and -_SMALL < value < _SMALL:  # type: ignore[operator]
        return True
    return conforms(value, kind)


def _is_small(name: str, value: object) -> bool:
    return len(name) <= _LONGEST_NAME and weight_of(value, _MOST_UNKNOWN) <= _MOST_UNKNOWN


def weight_of(value: Any, most: int = 1 << 62) -> int:
    """About the memory of a value as `json.loads` returns it, in bytes; no more is looked at than comes to `most`."""
    weight, waiting = 0, [value]
    while waiting and weight <= most:
        each = waiting.pop()
        weight += _OBJECT
        if isinstance(each, str):
            weight += len(each)
        elif isinstance(each, dict):
            weight += 2 * _PLACE * len(each)
            waiting += [*each, *each.values()]
        elif isinstance(each, list):
            weight += _PLACE * len(each)
            waiting += each
    return weight


def _as_json(document: Any) -> str:
    return json.dumps(document, default=str, separators=(",", ":"), allow_nan=False)


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity by words: JSON cannot express them."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
