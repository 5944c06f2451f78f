"""Event and Journal: the append-only record of a run, from which every decision can be recomputed. Both processes.

There is one folder per run and one file per writer, `<attempt>-<rank>-<role>.jsonl`, so no two processes write to
the same file. A line is one event, written with a single `write`: a killed process leaves at most one half line at
the end of its file, which the reader drops.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from oomph.conforming import conforms
from oomph.event_fields import sound_fields
from oomph.own_descriptor import OwnDescriptor
from oomph.redaction import redacted_data
from oomph.regular_file import open_regular, read_regular
from oomph.run_files import FOLDER_MODE, OwnFile

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
        document = json.loads(line)
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError("not an event of this schema")
        if not all(conforms(document.get(field), kind) for field, kind in _FRAME.items()):
            raise ValueError("not an event")
        return cls(
            name=document["event"],
            data=sound_fields(document["data"]),
            attempt=document["attempt"],
            rank=document["rank"],
            role=document["role"],
            sequence=document["sequence"],
            time=float(document["time"]),
        )


_FRAME = {
    "event": str,
    "data": Mapping[str, Any],
    "attempt": int,
    "rank": int,
    "role": str,
    "sequence": int,
    "time": float,
}


def _as_json(document: Any) -> str:
    return json.dumps(document, default=str, separators=(",", ":"), allow_nan=False)


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity by words: JSON cannot express them."""
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


class Journal:
    """The writer of one journal file. If the file cannot be written, events are dropped and training continues."""

    def __init__(self, run_dir: Path | None, attempt: int, role: str, rank: int = 0) -> None:
        self.attempt, self.role, self.rank = attempt, role, rank
        self._sequence = 0
        self._cut_off = False
        """Whether the last line was cut off because the disk was full."""
        self._file = None if run_dir is None else OwnFile(run_dir, f"journal/{attempt}-{rank}-{role}.jsonl")
        self._descriptor = self._opened()

    def write(self, name: str, /, **data: Any) -> Event:
        """Append one event and return it."""
        self._sequence += 1
        event = Event(name, redacted_data(data), self.attempt, self.rank, self.role, self._sequence, time.time())
        if self._descriptor is not None and not self._descriptor.is_ours:  # the script has closed all descriptors
            self._descriptor = self._opened()
        if self._descriptor is not None:
            line = b"\n" * self._cut_off + event.to_json().encode() + b"\n"
            try:
                self._cut_off = self._descriptor.write(line) < len(line)
            except OSError:
                pass  # a full disk must not end the training
        return event

    @property
    def is_silent(self) -> bool:
        """Whether its file could not be opened, so that events are dropped."""
        return self._file is not None and self._descriptor is None

    def close(self) -> None:
        """Close the file; later events are dropped."""
        if self._descriptor is not None:
            self._descriptor.close()
        self._descriptor = self._file = None

    def _opened(self) -> OwnDescriptor | None:
        if self._file is None:
            return None
        try:
            self._file.root.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            fd = self._file.open(os.O_RDWR | os.O_APPEND | os.O_CREAT)
            _end_half_line(fd)
        except OSError:
            return None
        return OwnDescriptor(fd)


def _end_half_line(fd: int) -> None:
    """End the half line of a killed writer, so that it does not damage our first line."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        os.write(fd, b"\n")


def read_journal(run_dir: Path, attempt: int | None = None) -> list[Event]:
    """Every readable event of a run, or of one attempt of it, merged by attempt and time.

    The events of one writer stay in order, even if the clock was set back.
    """
    pattern = "*.jsonl" if attempt is None else f"{attempt}-*.jsonl"
    files = sorted((run_dir / "journal").glob(pattern))
    placed = [place for path in files for place in _in_order(_read_file(path))]
    return [event for *_, event in sorted(placed, key=lambda place: place[:-1])]


def by_attempt(events: Iterable[Event]) -> list[list[Event]]:
    """The events of each attempt, in the order of the attempts."""
    attempts: dict[int, list[Event]] = {}
    for event in events:
        attempts.setdefault(event.attempt, []).append(event)
    return [attempts[number] for number in sorted(attempts)]


def by_name(events: Iterable[Event]) -> dict[str, list[Event]]:
    """The events of each name."""
    by: dict[str, list[Event]] = {}
    for event in events:
        by.setdefault(event.name, []).append(event)
    return by


def foreign_format(run_dir: Path) -> str | None:
    """Why this oomph cannot read the journal of a run; None when it can, or when there is none.

    Checks only the first line of each file: a process writes in one format.
    """
    for path in sorted((run_dir / "journal").glob("*.jsonl")):
        schema = _schema(path)
        if isinstance(schema, int) and schema != SCHEMA:
            return f"its journal was written by another oomph, in format {schema}; this one reads format {SCHEMA}"
    return None


def _schema(path: Path) -> Any:
    try:
        with open_regular(path) as lines:
            return json.loads(next(lines, b"").decode(errors="replace")).get("schema")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None  # cut off, or not an event: such lines are skipped


def _in_order(events: Iterator[Event]) -> Iterator[tuple[int, float, str, int, Event]]:
    """Sort keys for the events of one file: each gets the latest time so far, since the clock may be set back."""
    latest = 0.0
    for number, event in enumerate(events):
        latest = max(latest, event.time)
        yield event.attempt, latest, event.role, number, event


def unreadable_lines(run_dir: Path) -> int:
    """How many lines of a run's journal are not events; the unfinished last line of a killed writer does not count."""
    return sum(_unreadable_in(path) for path in (run_dir / "journal").glob("*.jsonl"))


def _unreadable_in(path: Path) -> int:
    try:
        whole = read_regular(path)
    except OSError:
        return 1
    lines = [line for line in whole.split(b"\n")[:-1] if line.strip()]
    return max(len(lines) - sum(1 for _ in _read_file(path)), 0)  # a last line without an end may be an event


def _read_file(path: Path) -> Iterator[Event]:
    try:
        with open_regular(path) as lines:
            for line in lines:
                try:
                    yield Event.from_json(line.decode(errors="replace"))
                except (ValueError, RecursionError):
                    continue  # the half line of a killed writer, or a line of another schema
    except OSError:
        return  # removed, or not readable for us
