"""Converts events to lines of a journal and back. Used in both processes."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_type_hints

from oomph.files.conforming import conforms
from oomph.journal.events import UnknownEvent
from oomph.journal.fact import BY_NAME, Fact

SCHEMA = 1
_SMALL = 2**62
"""The magnitude above which numbers are checked more closely, as values of other types always are."""
_MOST_FIELDS, _LONGEST_NAME = 200, 200
_MOST_UNKNOWN = 10_000
"""The most memory, in bytes, that a field of an unknown event may use."""
_OBJECT, _PLACE = 64, 16
"""The approximate memory, in bytes, of an object, and of a reference to it in a container."""


class _Type(NamedTuple):
    """One field of a fact, with its type and default."""

    name: str
    kind: Any
    plain: Any
    default: Any


class Event(NamedTuple):
    """One event: its fact, who wrote it, and its number among that writer's events.

    Args:
        fact: an instance of one of the classes in `events.py`.
    """

    fact: Fact
    attempt: int = 0
    rank: int = 0
    role: str = ""
    sequence: int = 0
    time: float = 0.0

    @property
    def name(self) -> str:
        """The event's name in the journal."""
        return self.fact.name if isinstance(self.fact, UnknownEvent) else type(self.fact).event

    @property
    def data(self) -> Mapping[str, Any]:
        """The fields of the fact, as they appear in the journal."""
        return fields_of(self.fact)

    def to_json(self) -> str:
        """Return the event as one line of JSON, without the newline."""
        document = {"schema": SCHEMA, "event": self.name, "attempt": self.attempt, "rank": self.rank}
        document |= {"role": self.role, "sequence": self.sequence, "time": self.time, "data": self.data}
        try:
            return _as_json(document)
        except ValueError:
            return _as_json(_without_nan(document))

    @classmethod
    def named(cls, name: str, data: Mapping[str, Any], *place: Any, **places: Any) -> Event:
        """Build an event from its name and its fields in the journal. Damaged fields are set to their defaults."""
        return cls(fact_of(name, data), *place, **places)

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Parse one line of a journal. Raises ValueError if it is not an event."""
        return event_of(json.loads(line))


def event_of(document: Any) -> Event:
    """Parse an event from a JSON document. Raises ValueError if it is not an event."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError("not an event that this version can read")
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
    """Return a fact's fields by name, omitting those that are None by default and have not been set."""
    if isinstance(fact, UnknownEvent):
        return fact.fields
    defaults = type(fact).defaults
    return {name: value for name, value in fact.items() if value is not None or defaults[name] is not None}


def fact_of(name: str, data: Mapping[str, Any]) -> Fact:
    """Build a fact from its name and fields. If the name is unknown, only small fields are kept."""
    kind = BY_NAME.get(name)
    if kind is None:
        has_too_many = len(data) > _MOST_FIELDS
        kept = {} if has_too_many else {each: data[each] for each in data if _is_small(each, data[each])}
        return UnknownEvent(name=name, fields=kept)
    return kind.of_values(_values(_types_of(kind), data))


def _values(types: Sequence[_Type], data: Mapping[str, Any]) -> Iterator[Any]:
    for name, kind, plain, default in types:
        value = data.get(name, default)
        if value is default:
            yield default
        elif type(value) is plain and (plain is str or plain is bool or -_SMALL < value < _SMALL):
            yield value  # a journal has millions of values, and most are plain words and small numbers
        elif conforms(value, kind):
            yield float(value) if type(value) is str and plain is float else value
        else:
            yield default


@functools.cache
def _types_of(kind: type[Fact]) -> tuple[_Type, ...]:
    """Return a fact's fields with their types."""
    hints = get_type_hints(kind)
    return tuple(_Type(name, hints[name], _plain(hints[name]), default) for name, default in kind.defaults.items())


def _plain(kind: Any) -> Any:
    """Return the plain type of a field (`int` for `int` or `int | None`, likewise str, bool and float), or None."""
    found = [each for each in (int, str, bool, float) if kind in (each, each | None)]
    return found[0] if found else None


def _is_small(name: str, value: object) -> bool:
    return len(name) <= _LONGEST_NAME and weight_of(value, _MOST_UNKNOWN) <= _MOST_UNKNOWN


def weight_of(value: Any, most: int = 1 << 62) -> int:
    """Estimate the memory that a value from `json.loads` uses, in bytes. Counting stops above `most`."""
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
    return json.dumps(document, default=_plain_json, separators=(",", ":"), allow_nan=False)


def _plain_json(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity with words, since JSON cannot represent them."""
    if isinstance(value, Mapping):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
