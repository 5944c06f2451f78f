"""SharedWords: saves memory in long runs, which have hundreds of thousands of events."""

from __future__ import annotations

from typing import Any

from oomph.journal.event import Event, weight_of

_LONGEST = 512
_MOST_SHARED = 4096
_OBJECT, _PLACE = 64, 16
"""The rough memory of an object, and of a place for an object in another, in bytes."""
_OF_AN_EVENT = 4 * _OBJECT


class SharedWords:
    """Short words and numbers that many events share, each kept once."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._numbers: dict[float, float] = {}
        self.weight = 0
        """The rough memory of all events so far, in bytes, without what they share."""

    def event(self, event: Event) -> Event:
        """The same event in less memory."""
        fact, attempt, rank, role, sequence, time = event
        values = [self._shared(value) for _, value in fact.items()]
        self.weight += _OF_AN_EVENT + _PLACE * len(values)
        return Event(fact.of_values(values), attempt, rank, self._word(role), sequence, time)

    def _shared(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._word(value)
        if kind is not float and kind is not int:
            if value is not None and kind is not bool:
                self.weight += weight_of(value)
            return value
        known = self._numbers.get(value)
        if known is None and len(self._numbers) < _MOST_SHARED:
            self._numbers[value] = value
        return known if type(known) is kind and known != 0 else value

    def _word(self, word: str) -> str:
        known = self._words.get(word)
        if known is not None:
            return known
        if len(word) <= _LONGEST and len(self._words) < _MOST_SHARED:
            self._words[word] = word
        self.weight += _OBJECT + len(word)
        return word
