"""EventData: the fields of an event in little memory. A long run has hundreds of thousands of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_LONGEST = 512
_MOST_SHARED = 4096
_OBJECT, _PLACE = 64, 16
"""About the memory of an object, and of a place for one in another, in bytes."""
_OF_AN_EVENT = 4 * _OBJECT


class EventData(Mapping[str, Any]):
    """A mapping whose names are shared by all events with the same fields."""

    __slots__ = ("_names", "_values")

    def __init__(self, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        self._names, self._values = names, values

    def __getitem__(self, name: str) -> Any:
        for at, own in enumerate(self._names):
            if own == name:
                return self._values[at]
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        """Behave as dict.get; the inherited method is several times as slow."""
        for at, own in enumerate(self._names):
            if own == name:
                return self._values[at]
        return default

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))


class SharedWords:
    """Field names and short words that many events share, each kept once."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._words: dict[str, str] = {}
        self._numbers: dict[float, float] = {}
        self.weight = 0
        """About the memory of all events so far, in bytes, without what they share."""

    def data(self, data: Mapping[str, Any]) -> EventData:
        """The same fields in less memory."""
        names = tuple(data)
        known = self._names.get(names)
        if known is not None:
            names = known
        else:
            self.weight += sum(map(weight_of, names))
            if len(self._names) < _MOST_SHARED:
                self._names[names] = names
        self.weight += _OF_AN_EVENT + _PLACE * len(names)
        return EventData(names, tuple([self._shared(each) for each in data.values()]))

    def _shared(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self.word(value)
        if kind is not float and kind is not int:
            if value is not None and kind is not bool:
                self.weight += weight_of(value)
            return value
        known = self._numbers.get(value)
        if known is None and len(self._numbers) < _MOST_SHARED:
            self._numbers[value] = value
        return known if type(known) is kind and known != 0 else value

    def word(self, word: str) -> str:
        """Return the word as the same object every time."""
        known = self._words.get(word)
        if known is not None:
            return known
        if len(word) <= _LONGEST and len(self._words) < _MOST_SHARED:
            self._words[word] = word
        self.weight += _OBJECT + len(word)
        return word


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
