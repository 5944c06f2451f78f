"""Writes the journal: the append-only record of a run, from which every decision can be recomputed.

Used in both processes. There is one folder per run and one file per writer, `<attempt>-<rank>-<role>.jsonl`, so no two
processes write to the same file. Each line is one event, written with a single `write`. A killed process therefore
leaves at most one incomplete line at the end of its file, which the reader drops.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from oomph.files.opening import FOLDER_MODE, OwnFile, open_folder, set_aside
from oomph.files.own_descriptor import OwnDescriptor
from oomph.journal.event import Event as Event
from oomph.journal.fact import Fact
from oomph.journal.journal_reader import foreign_format as foreign_format
from oomph.journal.journal_reader import lines_left_out as lines_left_out
from oomph.journal.journal_reader import read_journal as read_journal
from oomph.journal.journal_reader import unreadable_lines as unreadable_lines
from oomph.redaction.redaction import redacted_data

_Fact = TypeVar("_Fact", bound=Fact)
_LONGEST_GAP_SECONDS = 7 * 86400.0
"""The longest plausible gap between events, in seconds. A longer one means that the clock was turned forward."""
_OF_ATTEMPT = re.compile(r"([0-9]{1,9})-.*\.jsonl")


class Journal:
    """Writes one journal file. If the file cannot be written, events are dropped and training continues."""

    def __init__(self, run_dir: Path | None, attempt: int, role: str, rank: int = 0) -> None:
        self.attempt, self.role, self.rank = attempt, role, rank
        self._sequence = 0
        self.heard: Callable[[Event], object] | None = None
        """Called with each event, written or not."""
        self._cut_off = False
        """True if the last line is incomplete because the disk was full."""
        self._file = None if run_dir is None else OwnFile(run_dir, f"journal/{attempt}-{rank}-{role}.jsonl")
        self._descriptor = self._opened()

    def write(self, fact: Fact) -> Event:
        """Append one event and return it."""
        self._sequence += 1
        kept = fact.of_values(redacted_data(value, name) for name, value in fact.items())
        event = Event(kept, self.attempt, self.rank, self.role, self._sequence, time.time())
        if self._descriptor is not None and not self._descriptor.is_ours:  # the script has closed all descriptors
            self._descriptor = self._opened()
        if self._descriptor is not None:
            line = b"\n" * self._cut_off + event.to_json().encode() + b"\n"
            try:
                self._cut_off = self._descriptor.write(line) < len(line)
            except OSError:
                pass  # a full disk must not end the run
        if self.heard is not None:
            self.heard(event)
        return event

    @property
    def is_silent(self) -> bool:
        """True if the file could not be opened, so that events are dropped."""
        return self._file is not None and self._descriptor is None

    def close(self) -> None:
        """Close the file. Later events are dropped."""
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


def refuse_later(run_dir: Path, attempt: int) -> None:
    """Rename files that claim to be journals of this attempt, which has not started yet, or of a later one.

    They were not written by a process of this run, but the reader would mistake their events for those of this attempt.
    """
    try:
        folder = open_folder(run_dir / "journal")
    except OSError:
        return  # there is none yet
    try:
        for name in os.listdir(folder):
            found = _OF_ATTEMPT.fullmatch(name)
            if found is not None and int(found[1]) >= attempt:
                set_aside(folder, name)
    finally:
        os.close(folder)


def _end_half_line(fd: int) -> None:
    """Terminate the incomplete line that a killed writer left, so that it does not damage our first line."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        os.write(fd, b"\n")


def by_attempt(events: Iterable[Event]) -> list[list[Event]]:
    """Group the events by attempt, in the order of the attempts."""
    attempts: dict[int, list[Event]] = {}
    for event in events:
        attempts.setdefault(event.attempt, []).append(event)
    return [attempts[number] for number in sorted(attempts)]


class ByKind:
    """Groups events by the class of their facts."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events: dict[type[Fact], list[Event]] = {}
        for event in events:
            self._events.setdefault(type(event.fact), []).append(event)

    def events(self, *kinds: type[Fact]) -> list[Event]:
        """Return the events of these classes, grouped by class."""
        return [event for kind in kinds for event in self._events.get(kind, ())]

    def facts(self, kind: type[_Fact]) -> list[_Fact]:
        """Return the facts of this class."""
        return facts(self.events(kind), kind)

    def pairs(self, kind: type[_Fact]) -> list[tuple[Event, _Fact]]:
        """Return each event whose fact is a `kind`, paired with that fact."""
        return pairs(self.events(kind), kind)


def pairs(events: Iterable[Event], kind: type[_Fact]) -> list[tuple[Event, _Fact]]:
    """Return each event whose fact is a `kind`, paired with that fact."""
    return [(event, event.fact) for event in events if isinstance(event.fact, kind)]


def events_of(events: Iterable[Event], *kinds: type[Fact]) -> list[Event]:
    """Return the events whose facts belong to one of these classes."""
    return [event for event in events if isinstance(event.fact, kinds)]


def facts(events: Iterable[Event], kind: type[_Fact]) -> list[_Fact]:
    """Return the facts of class `kind`."""
    return [event.fact for event in events if isinstance(event.fact, kind)]


def elapsed(earlier: float, later: float) -> float:
    """Return the seconds between the times of two events, or 0 if the clock was changed meanwhile."""
    seconds = later - earlier
    return seconds if 0 < seconds < _LONGEST_GAP_SECONDS else 0.0


def last(events: Sequence[Event], kind: type[_Fact]) -> _Fact | None:
    """Return the last fact of class `kind`, or None if there is none."""
    return next((event.fact for event in reversed(events) if isinstance(event.fact, kind)), None)
