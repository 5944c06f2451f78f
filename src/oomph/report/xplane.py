"""Reads what a report needs of a trace (`.xplane.pb`) of TensorFlow's profiler. Pure; neither TensorFlow nor protobuf.

A trace is a protobuf message, XSpace: planes (the host, each device), of lines (threads, streams), of events. Their
names are numbers, which tables in the plane explain. The file may be damaged or planted: no number in it is trusted.

Source: tsl/profiler/protobuf/xplane.proto of https://github.com/openxla/xla, and
https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

MOST_PARTS = 3_000_000
"""The most planes, lines, events, stats and names to look at, all together: each takes up to some microseconds."""
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_SIGNED = 1 << 63


class DamagedTraceError(ValueError):
    """A trace that does not have the form of one."""


class LargeTraceError(ValueError):
    """A trace with more parts than are read."""


class TraceEvent(NamedTuple):
    """An event of a line. Times are in picoseconds from the beginning of the line's clock."""

    name: str
    begin: int
    end: int
    stats: Mapping[str, str]
    """The texts and numbers that describe it, by their names."""


class Line(NamedTuple):
    """A thread of the host, or a stream of a device."""

    name: str
    events: list[TraceEvent]


class Plane(NamedTuple):
    """The host, or one device."""

    name: str
    lines: list[Line]


class Wanted(NamedTuple):
    """The part of a trace to read, since it has many more events than a report tells of."""

    planes: Callable[[str], bool]
    """True for the name of a plane to read."""
    stats: frozenset[str]
    """The names of the stats to read."""
    events: Callable[[str, Mapping[str, str]], bool]
    """True for an event to keep, by its name and stats. Asked again only for names whose first event is kept."""


def read_planes(data: bytes, wanted: Wanted) -> Iterator[Plane]:
    """Yield the planes of a trace in which there are wanted events.

    Raises:
        DamagedTraceError: the file is not a trace, or a part of it is missing.
        LargeTraceError: it has too many parts.
    """
    limit = _Limit()
    try:
        for number, begin, end in _fields(data, 0, len(data)):
            if number == 1 and end is not None:
                reader = _PlaneReader(data, begin, end, wanted, limit)
                plane = reader.read() if wanted.planes(reader.name) else None
                if plane is not None and plane.lines:
                    yield plane
    except IndexError:
        raise DamagedTraceError("a part of it is missing") from None


class _Limit:
    """Counts the parts that were looked at."""

    def __init__(self) -> None:
        self._left = MOST_PARTS

    def count(self) -> None:
        """Count a part. Raises LargeTraceError if that is one too many."""
        self._left -= 1
        if self._left < 0:
            raise LargeTraceError(f"it has more than {MOST_PARTS:,} events and other parts")


class _PlaneReader:
    """Reads a plane, whose tables of names come after its lines."""

    def __init__(self, data: bytes, begin: int, end: int, wanted: Wanted, limit: _Limit) -> None:
        limit.count()
        self._data, self._wanted, self._limit = data, wanted, limit
        self.name = ""
        self._lines: list[tuple[int, int]] = []
        self._names: dict[int, str] = {}
        self._stats: dict[int, str] = {}
        self._unwanted: set[int] = set()
        """The numbers of the names whose events are not kept."""
        for number, at, until in _fields(data, begin, end):
            if until is None:
                continue
            limit.count()
            if number == 2:
                self.name = _text(data, at, until)
            elif number == 3:
                self._lines.append((at, until))
            elif number == 4:
                self._names.update(_entry(data, at, until))
            elif number == 5:
                self._stats.update(_entry(data, at, until))

    def read(self) -> Plane:
        """Return the plane."""
        lines = [self._line(begin, end) for begin, end in self._lines]
        return Plane(self.name, [line for line in lines if line.events])

    def _line(self, begin: int, end: int) -> Line:
        name, starts, places = "", 0, []
        for number, at, until in _fields(self._data, begin, end):
            if until is None:
                starts = at * 1000 if number == 3 else starts
            elif number == 2:
                name = _text(self._data, at, until)
            elif number == 4:
                self._limit.count()
                places.append((at, until))
        events = (self._event(at, until, starts) for at, until in places)
        return Line(name, [event for event in events if event is not None])

    def _event(self, begin: int, end: int, starts: int) -> TraceEvent | None:
        key = offset = duration = 0
        stats: dict[str, str] = {}
        for number, at, until in _fields(self._data, begin, end):
            if until is None:
                if number == 1:
                    if at in self._unwanted:
                        return None
                    key = at
                elif number == 2:
                    offset = _signed(at)
                elif number == 3:
                    duration = _signed(at)
            elif number == 4:
                stats.update(self._stat(at, until))
        name = self._names.get(key, "")
        if not self._wanted.events(name, stats):
            self._unwanted.add(key)
            return None
        return TraceEvent(name, starts + offset, starts + offset + max(0, duration), stats)

    def _stat(self, begin: int, end: int) -> Iterator[tuple[str, str]]:
        """Yield the name and the value of a stat if it is wanted."""
        self._limit.count()
        name, value = "", None
        for number, at, until in _fields(self._data, begin, end):
            if number == 1 and until is None:
                name = self._stats.get(at, "")
                if name not in self._wanted.stats:
                    return
            elif number == 7 and until is None:
                value = self._stats.get(at)
            elif number == 5 and until is not None:
                value = _text(self._data, at, until)
            elif number in (3, 4) and until is None:
                value = str(_signed(at))
        if name and value is not None:
            yield name, value


def _entry(data: bytes, begin: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield the number and the name of an entry in a table."""
    key, name = 0, ""
    for number, at, until in _fields(data, begin, end):
        if number == 1 and until is None:
            key = at
        elif number == 2 and until is not None:
            texts = (_text(data, a, b) for each, a, b in _fields(data, at, until) if each == 2 and b is not None)
            name = next(texts, "")
    yield key, name


def _text(data: bytes, begin: int, end: int) -> str:
    return data[begin:end].decode("utf-8", "replace")


def _signed(value: int) -> int:
    return value - 2 * _SIGNED if value >= _SIGNED else value


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int | None]]:
    """Yield the fields of a message: its number and its value, or its number and the beginning and end of its bytes.

    Raises DamagedTraceError or IndexError if the message is damaged.
    """
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = _varint(data, at - 1)
        kind = tag & 7
        if kind == _VARINT:
            value = data[at]
            at += 1
            if value > 127:
                value, at = _varint(data, at - 1)
            yield tag >> 3, value, None
        elif kind == _BYTES:
            size, at = _varint(data, at)
            until = at + size
            if until > end:
                raise DamagedTraceError("a part of it is missing")
            yield tag >> 3, at, until
            at = until
        elif kind in (_FIXED_64, _FIXED_32):
            at += 8 if kind == _FIXED_64 else 4
        else:
            raise DamagedTraceError("it is not a trace")
    if at > end:
        raise DamagedTraceError("a part of it is missing")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number, and where it ends."""
    value = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise DamagedTraceError("it is not a trace")
