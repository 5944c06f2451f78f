"""Event: one line of a journal. Both processes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from oomph.files.conforming import conforms
from oomph.journal.event_fields import sound_fields

SCHEMA = 1


class Event(NamedTuple):
    """One event: its name, its position in the order of its writer, and its facts."""

    name: str
    data: Mapping[str, Any] = MappingProxyType({})
    attempt: int = 0
    rank: int = 0
    role: str = ""
    sequence: int = 0
    time: float = 0.0

    def to_json(self) -> str:
        """The event as one line of JSON, without the newline."""
        document = {"schema": SCHEMA, "event": self.name, "attempt": self.attempt, "rank": self.rank}
        document |= {"role": self.role, "sequence": self.sequence, "time": self.time, "data": dict(self.data)}
        try:
            return _as_json(document)
        except ValueError:
            return _as_json(_without_nan(document))

    @classmethod
    def from_json(cls, line: str) -> Event:
        """The event of one journal line, without damaged fields; raises ValueError when the line is not an event."""
        return event_of(json.loads(line))


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


def event_of(document: Any) -> Event:
    """The event that a document is, without damaged fields; raises ValueError when it is none."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError("not an event of this schema")
    if not _has_frame(document):
        raise ValueError("not an event")
    return Event(
        name=document["event"],
        data=sound_fields(document["data"]),
        attempt=document["attempt"],
        rank=document["rank"],
        role=document["role"],
        sequence=document["sequence"],
        time=float(document["time"]),
    )


def _as_json(document: Any) -> str:
    return json.dumps(document, default=str, separators=(",", ":"), allow_nan=False)


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity by words: JSON cannot express them."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
