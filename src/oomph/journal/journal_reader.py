"""Reads a run's journal as a stream, and afterwards only what was added. Used in both processes.

`oomph explain` needs a run's events in six places. Inside `with JournalReader(run):`, they all share one reader.
"""

from __future__ import annotations

import heapq
import io
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from oomph.files.opening import open_regular
from oomph.journal.event import SCHEMA, Event, event_of, weight_of
from oomph.journal.fact import Fact

_LONGEST_WORD = 512
_MOST_SHARED = 4096
_OBJECT, _PLACE = 64, 16
"""The approximate memory, in bytes, of an object, and of a reference to it in a container."""
_OF_AN_EVENT = 4 * _OBJECT
_CHUNK = 1 << 16
_LONGEST_FIRST = 1 << 20
_LONGEST = 64 << 20
"""The maximum length of a line, in bytes. A sparse file may be a single unterminated line."""
_SHORT, _MOST_PARTS = 1 << 16, 1 << 17
"""The maximum length of a short line, in bytes, and the maximum number of parts in a longer one. Values such as
"{},{}," use twenty times as much memory as their text."""
MOST_KEPT = 256 << 20
"""The approximate memory for one run's events, in bytes. Further lines are only counted."""
_NAME = re.compile("([0-9]{1,9})-.*")
_NEWEST_BYTES, _NEWEST_EVENTS = 1 << 18, 1000
"""The part of each file that a reader of the newest events reads, and the least number of events that it keeps."""
_LASTING = "finding"
"""The beginning of the names of events that such a reader keeps at any age: a finding lasts until its end."""
_MOST_OF_SOME = 16 << 20
"""The most bytes that a reader of some kinds of event reads of a run. What the supervisor writes in an attempt is a
thousandth of that."""


def _start_of_line(name: str) -> bytes:
    """Return how the lines of the events begin whose names begin so."""
    return f'{{"schema":{SCHEMA},"event":"{name}'.encode()


_LASTING_LINE = _start_of_line(_LASTING)


class SharedWords:
    """Stores each short word and number only once, since many events share them."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}
        self._numbers: dict[float, float] = {}
        self.weight = 0
        """The approximate memory of all events so far, in bytes, not counting shared values twice."""

    def event(self, event: Event) -> Event:
        """Return the same event in a form that uses less memory."""
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
        if len(word) <= _LONGEST_WORD and len(self._words) < _MOST_SHARED:
            self._words[word] = word
        self.weight += _OBJECT + len(word)
        return word


class JournalReader:
    """Reads the journal of a run, or of one attempt. Each call reads only what was written since the last one.

    Args:
        newest: True for the newest events of each file and all findings. However long the journal is, or becomes, that
            takes little time and memory.
        kinds: the classes of the events to read, without parsing others; empty for all. The largest files are then left
            out if there is more than 16 MiB of them.
        role: the role of the writers whose files to read, or an empty string for all.
    """

    def __init__(
        self,
        run_dir: Path,
        attempt: int | None = None,
        newest: bool = False,
        kinds: Collection[type[Fact]] = (),
        role: str = "",
    ) -> None:
        self._newest, self._starts = newest, tuple(_start_of_line(kind.event + '"') for kind in kinds)
        self._folder, self._pattern = run_dir / "journal", f"{'' if attempt is None else f'{attempt}-'}*{role}.jsonl"
        self._files: dict[Path, _File] = {}
        self._shared = SharedWords()
        self._events: Sequence[Event] = ()

    def __enter__(self) -> JournalReader:
        """Make `read_journal` and `unreadable_lines` use this reader for its run."""
        _shared_readers[_key(self._folder.parent)] = self
        return self

    def __exit__(self, *_: object) -> None:
        _shared_readers.pop(_key(self._folder.parent), None)

    def read(self) -> Sequence[Event]:
        """Return every readable event, like `read_journal`. Returns the same object if there is nothing new."""
        if self._update():
            # Each file's events stay in order, even if the clock was turned back: only its next event is compared.
            self._events = list(heapq.merge(*(file.all() for file in self._files.values()), key=_place_of))
        return self._events

    def unreadable_lines(self) -> int:
        """Return the number of lines that are not events, not counting a killed writer's incomplete last line."""
        self._update()
        return sum(file.unreadable for file in self._files.values())

    def left_out(self) -> int:
        """Return the number of lines that were not kept because there were too many."""
        self._update()
        return sum(file.left_out for file in self._files.values())

    def _update(self) -> bool:
        """Read what was added. Returns True if there is anything new."""
        paths = sorted(self._folder.glob(self._pattern))
        is_new = paths != [*self._files]
        self._files = {path: self._files.get(path) or _File(path, self._newest, self._starts) for path in paths}
        # The smallest first, such as the supervisor's: if memory does not suffice, the events of the largest are cut.
        files = sorted(self._files.values(), key=_File.size)
        if self._starts:
            files = self._within_limit(files)
        changed = [file.update(self._shared) for file in files]  # any() alone would skip some files
        return any(changed) or is_new

    def _within_limit(self, files: Sequence[_File]) -> list[_File]:
        """Return the files that may be read, given from small to large, and mark the others as left out."""
        sizes = accumulate(file.size() for file in files)
        within = [file for file, size in zip(files, sizes, strict=True) if size <= _MOST_OF_SOME]
        for file in files[len(within) :]:
            file.left_out = 1
        return within


_shared_readers: dict[str, JournalReader] = {}


def read_journal(run_dir: Path, attempt: int | None = None) -> Sequence[Event]:
    """Return every readable event of a run, or of one of its attempts, merged by attempt and time.

    Each writer's events stay in order, even if the clock was turned back.
    """
    reader = _shared_readers.get(_key(run_dir))
    if reader is None:
        return JournalReader(run_dir, attempt).read()
    events = reader.read()
    return events if attempt is None else [event for event in events if event.attempt == attempt]


def unreadable_lines(run_dir: Path) -> int:
    """Return the number of lines in a run's journal that are not events.

    A killed writer's incomplete last line does not count.
    """
    return (_shared_readers.get(_key(run_dir)) or JournalReader(run_dir)).unreadable_lines()


def lines_left_out(run_dir: Path) -> int:
    """Return the number of lines in a run's journal that were not kept because they would use too much memory."""
    return (_shared_readers.get(_key(run_dir)) or JournalReader(run_dir)).left_out()


def foreign_format(run_dir: Path) -> str | None:
    """Explain why this oomph cannot read a run's journal, or return None if it can or there is no journal.

    This checks only the first line of each file, since a process writes in a single format.
    """
    for path in sorted((run_dir / "journal").glob("*.jsonl")):
        schema = _schema(path)
        if isinstance(schema, int) and schema != SCHEMA:
            return (
                f"its journal was written by another version of oomph, in format {schema}; this one reads format"
                f" {SCHEMA}"
            )
    return None


def _key(run_dir: Path) -> str:
    return os.path.abspath(run_dir)


def _schema(path: Path) -> Any:
    try:
        with open_regular(path) as lines:
            return json.loads(lines.readline(_LONGEST_FIRST).decode(errors="replace")).get("schema")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None  # incomplete, or not an event: such lines are skipped


def _place_of(event: Event) -> tuple[int, float, str]:
    """Return the key by which the events of several files are sorted."""
    return event.attempt, event.time, event.role


class _File:
    """One file of a journal.

    Args:
        newest: as in `JournalReader`.
        starts: the starts of the lines to parse; empty for all.
    """

    def __init__(self, path: Path, newest: bool = False, starts: tuple[bytes, ...] = ()) -> None:
        self._path, self._newest, self._starts = path, newest, starts
        self._recent = 0
        """The byte before which only findings are kept."""
        found = _NAME.fullmatch(path.name)
        self._attempt = -1 if found is None else int(found[1])
        self._state: tuple[int, ...] | None = None
        self._end, self.unreadable, self.left_out = 0, 0, 0
        self._weight = 0
        self._events: list[Event] = []
        self._half_line: list[Event] = []
        """The event in an unterminated last line, if there is one. The line is read again once it is terminated."""

    def size(self) -> int:
        """Return the size of the file in bytes, or 0 if it cannot be read."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    def all(self) -> Iterator[Event]:
        """Yield the file's events in the order in which they were written."""
        yield from self._events
        yield from self._half_line

    def update(self, shared: SharedWords) -> bool:
        """Read what was added. Returns True if anything is new. An unreadable file counts as one unreadable line."""
        try:
            with open_regular(self._path) as stream:
                found = os.fstat(stream.fileno())
                state = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
                if state == self._state:
                    return False
                if self._state is None or state[:2] != self._state[:2] or state[2] <= self._state[2]:
                    self._forget(shared)  # a different or rewritten file, since a journal only grows
                    self._recent = state[2] - _NEWEST_BYTES if self._newest else 0
                self._state = state
                self._take(stream, shared)
        except OSError:
            was_readable = self._state is not None or not self.unreadable
            self._forget(shared)
            self._state, self.unreadable = None, 1
            return was_readable
        return True

    def _forget(self, shared: SharedWords) -> None:
        shared.weight -= self._weight
        self._end, self.unreadable, self.left_out, self._weight = 0, 0, 0, 0
        self._events, self._half_line = [], []

    def _take(self, stream: BinaryIO, shared: SharedWords) -> None:
        self._half_line = []
        stream.seek(self._end)
        before_all = shared.weight
        while lines := _some_lines(stream):
            is_endless = len(lines[-1]) > _LONGEST
            if shared.weight > MOST_KEPT:
                self._end += sum(map(len, lines))
                self.left_out += sum(line.endswith(b"\n") for line in lines)
                if is_endless:
                    break
                continue
            if not lines[-1].endswith(b"\n"):
                self._half_line = list(self._events_in([lines.pop()], shared))
            self._end += sum(map(len, lines))
            if self._starts or self._end < self._recent:
                lines = [line for line in lines if line.startswith(self._starts or _LASTING_LINE)]
            before = len(self._events)
            self._events += self._events_in(lines, shared)
            self.unreadable += sum(map(bool, map(bytes.strip, lines))) - len(self._events) + before
            if is_endless:
                self.unreadable += 1
                break
        self._weight += shared.weight - before_all
        if self._newest and len(self._events) > 2 * _NEWEST_EVENTS:
            self._drop_old(shared)

    def _drop_old(self, shared: SharedWords) -> None:
        count, old = len(self._events), self._events[:-_NEWEST_EVENTS]
        self._events[:-_NEWEST_EVENTS] = [event for event in old if event.name.startswith(_LASTING)]
        freed = self._weight * (count - len(self._events)) // count
        self._weight -= freed
        shared.weight -= freed

    def _events_in(self, lines: list[bytes], shared: SharedWords) -> Iterator[Event]:
        """Yield the events in these lines that belong to the attempt in the file's name, as all genuine events do."""
        return (event for event in _events_of(lines, shared) if event.attempt == self._attempt)


def _some_lines(stream: BinaryIO) -> list[bytes]:
    """Return the next lines. The last one may be incomplete if it is longer than any event."""
    chunk = stream.read(_CHUNK)
    if not chunk.endswith(b"\n"):
        chunk += stream.readline(_LONGEST + 1)
    return io.BytesIO(chunk).readlines()


def _events_of(lines: list[bytes], shared: SharedWords) -> Iterator[Event]:
    """Yield the events in these lines, except a killed writer's incomplete lines and events in other formats."""
    for document in _documents(lines):
        try:
            event = event_of(document)
        except (ValueError, RecursionError):
            continue
        yield shared.event(event)


def _documents(lines: list[bytes]) -> Sequence[Any]:
    """Parse the JSON documents in these lines, all at once if they are intact, which is twice as fast."""
    lines = [line for line in lines if len(line) <= _SHORT or _parts_in(line) <= _MOST_PARTS]
    if all(line.startswith(b'{"') and line.endswith(b"}\n") for line in lines):
        try:
            found = json.loads(b"[" + b",".join(lines) + b"]")
            if len(found) == len(lines):
                return list(found)
        except (ValueError, RecursionError):
            pass
    return [document for line in lines for document in _document(line)]


def _parts_in(line: bytes) -> int:
    """Return an upper bound on the number of values in a line. Commas and brackets inside strings count as well."""
    return line.count(b",") + line.count(b"[") + line.count(b"{")


def _document(line: bytes) -> Iterator[Any]:
    try:
        yield json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return
