"""Holds what the workers of a gang say about borders, where all of them read it. Standard library only.

On one machine that is a small file that all have mapped into memory. On several machines it is one small file for each
worker, in a folder that all share: only that worker writes it, in place, because a renamed file may appear late
elsewhere, and readers open it each time, because network file systems look for changes when a file is opened. A thread
does both. No step waits for it.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Sequence
from functools import reduce
from operator import xor
from pathlib import Path

from oomph.files.oomph_folder import WORKERS
from oomph.files.opening import open_own, read_own
from oomph.protocol.borders import BorderDecision, Note

BORDERS = "borders"
"""The name of the file, in the run directory of the first worker or of each."""
LEAD_SECONDS = 4.0
"""The time after which all machines usually see an announcement: several times as long as it takes."""
_LOOK_SECONDS = 0.5
_MOST_BYTES = 1 << 16
_RECORD = struct.Struct("<6q")
"""The start, four numbers, and a checksum: a record that is read while it is being written is ignored."""
_Numbers = tuple[int, int, int, int]
_SIGNALS = (0, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class MappedBorderBoard:
    """The board of workers on one machine. Each writes only its own record.

    Args:
        run_dir: the run directory of the first worker.
        attempt: the number of the attempt; what was written in another one is ignored.
        rank: the rank of this worker.
        workers: the number of workers.
    """

    lead_seconds = 0.0

    def __init__(self, run_dir: Path, attempt: int, rank: int, workers: int) -> None:
        self._start, self._rank, self._workers = attempt, rank, workers
        size = (1 + workers) * _RECORD.size
        fd = open_own(run_dir, BORDERS, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, size)  # otherwise, a hole could cause a SIGBUS later, if the disk is full
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)

    def announce(self, decision: BorderDecision) -> None:
        """Publish the first worker's decision."""
        self._write(0, decision)

    def decision(self) -> BorderDecision | None:
        """Return the latest decision of this attempt, or None if there is none, or it is being written."""
        return _decision_in(self._read(0))

    def write_note(self, note: Note) -> None:
        """Publish what this worker has to say."""
        self._write(1 + self._rank, note)

    def notes(self) -> list[Note]:
        """Return what each worker has to say in this attempt, by rank."""
        return [Note(*(self._read(1 + rank) or ())) for rank in range(self._workers)]

    def close(self) -> None:
        """Do nothing: the memory is freed with the process."""

    def _write(self, index: int, numbers: _Numbers) -> None:
        self._map[index * _RECORD.size : (1 + index) * _RECORD.size] = _packed(self._start, numbers)

    def _read(self, index: int) -> _Numbers | None:
        return _unpacked(self._start, self._map[index * _RECORD.size : (1 + index) * _RECORD.size])


class SharedBorderBoard:
    """The board of workers on several machines, in the run directories that all of them see.

    Args:
        run_dir: the run directory of the first worker, above those of the others.
        start: identifies the start of the workers; what was written in another one is ignored.
        rank: the rank of this worker.
        workers: the number of workers.
    """

    lead_seconds = LEAD_SECONDS

    def __init__(self, run_dir: Path, start: str, rank: int, workers: int) -> None:
        self._root, self._rank, self._workers = run_dir, rank, workers
        self._start = int.from_bytes(hashlib.sha256(start.encode()).digest()[:8], "little", signed=True)
        self._mine: _Numbers = BorderDecision() if rank == 0 else Note()
        self._written: _Numbers | None = None
        self._decision: BorderDecision | None = None
        self._notes = [Note()] * workers
        self._is_closed, self._has_news = False, threading.Event()
        self._write()
        threading.Thread(target=self._run, name="oomph-borders", daemon=True).start()

    def announce(self, decision: BorderDecision) -> None:
        """Publish the first worker's decision, as soon as the thread gets to it."""
        self._mine = decision
        self._has_news.set()

    def decision(self) -> BorderDecision | None:
        """Return the latest decision of this start that the thread has seen, or None if there is none."""
        return self._decision

    def write_note(self, note: Note) -> None:
        """Publish what this worker has to say, as soon as the thread gets to it."""
        self._notes[self._rank] = note
        if self._rank > 0:
            self._mine = note
            self._has_news.set()

    def notes(self) -> list[Note]:
        """Return what each worker is known to have said in this start, by rank."""
        return list(self._notes)

    def close(self) -> None:
        """Stop reading and writing."""
        self._is_closed = True
        self._has_news.set()

    def _run(self) -> None:
        while not self._is_closed:
            since = time.monotonic()
            try:
                self._write()
            except OSError:
                pass  # tried again next time; until then, no checkpoint counts
            self._look()
            spent = time.monotonic() - since
            self._has_news.wait(max(_LOOK_SECONDS, spent))  # rests half of the time, however slow the folder is
            self._has_news.clear()

    def _look(self) -> None:
        """Read what this worker needs of the others. What cannot be read now stays as it was seen last."""
        if self._rank > 0:
            self._decision = _decision_in(self._read(0)) or self._decision
            return
        for rank in range(1, self._workers):
            numbers = self._read(rank)
            if numbers is not None:
                self._notes[rank] = Note(*numbers)

    def _read(self, rank: int) -> _Numbers | None:
        try:
            return _unpacked(self._start, read_own(self._root, _name(rank), _MOST_BYTES)[: _RECORD.size])
        except OSError:
            return None

    def _write(self) -> None:
        """Write this worker's record if it has changed. Raises OSError if that fails."""
        numbers = self._mine
        if numbers == self._written:
            return
        fd = open_own(self._root, _name(self._rank), os.O_WRONLY | os.O_CREAT)
        try:
            os.write(fd, _packed(self._start, numbers))
        finally:
            os.close(fd)
        self._written = numbers


def _name(rank: int) -> str:
    return BORDERS if rank == 0 else f"{WORKERS}/{rank}/{BORDERS}"


def _packed(start: int, numbers: _Numbers) -> bytes:
    record = (start, *numbers)
    return _RECORD.pack(*record, _check(record))


def _unpacked(start: int, data: bytes) -> _Numbers | None:
    """Return the numbers of a record, or None if it is of another start, or only partly written."""
    if len(data) != _RECORD.size:
        return None
    found, one, two, three, four, check = _RECORD.unpack(data)
    is_whole = found == start and check == _check((found, one, two, three, four))
    return (one, two, three, four) if is_whole else None


def _decision_in(numbers: _Numbers | None) -> BorderDecision | None:
    """Return the decision in a record, or None if nothing has been announced."""
    is_one = numbers is not None and numbers != BorderDecision() and numbers[3] in _SIGNALS
    return BorderDecision(*numbers) if numbers is not None and is_one else None


def _check(record: Sequence[int]) -> int:
    return reduce(xor, record, ~0)
