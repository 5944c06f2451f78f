"""The pace of a worker: a file of numbers in which one of several workers records how far it is, and what it waits for.

Each worker has such a file in its own run directory, memory-mapped like the board, so that nobody else has to sample
it, also on another host. It has the newest reading, and up to 512 earlier ones. When these are full, every second one
is dropped, so that a day takes up as much as ten minutes. This module runs in both processes. One is the script's, so
it needs only the standard library.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from oomph.files.oomph_folder import folder_of, ranks_of
from oomph.files.opening import open_own
from oomph.process.process_identity import ProcessIdentity

PACE = "pace"
"""The name of the file in a worker's run directory."""
_MAGIC = 0x6F6F6D7068_04  # "oomph", the fourth kind of board
_MOST = 512
_FIRST_STRIDE = 1.0
_HEAD = struct.Struct("<2qd200s")
"""The file header: a magic number, the number of earlier readings, the least time between two of them, in seconds, and
the process that writes, as text."""
_READING = struct.Struct("<qd8d")
_SIZE = _HEAD.size + (1 + _MOST) * _READING.size
_LATEST, _FARTHEST = 2.0**40, 2.0**62
"""The highest plausible time, in seconds, and count."""


class PaceReading(NamedTuple):
    """The counters of a worker at one moment. Values that cannot be measured are NaN."""

    attempt: int
    time: float
    """The Unix time by the worker's own clock."""
    monotonic: float
    """`time.monotonic` of the worker's machine, which nobody can change."""
    steps: float
    """The steps completed, also in earlier attempts that this one continues: the same in all workers."""
    step_seconds: float
    """The time spent in these steps by this process."""
    input_wait_seconds: float = float("nan")
    """The part of it spent waiting for batches."""
    all_reduce_seconds: float = float("nan")
    """The part of it from the moment when this worker's gradients were ready until those of all were added up."""
    pool_bytes: float = float("nan")
    pool_limit_bytes: float = float("nan")
    resident_bytes: float = float("nan")


@dataclass(frozen=True)
class Pace:
    """The record of a worker."""

    rank: int
    owner: ProcessIdentity
    """The process that wrote last."""
    readings: tuple[PaceReading, ...]
    """The readings, at least one, the newest last. Attempts follow one another, and counters start anew in each."""

    @property
    def newest(self) -> PaceReading:
        """The newest reading."""
        return self.readings[-1]


class PaceBoard:
    """The writing end, used by the training process. Raises OSError if the file cannot be created."""

    def __init__(self, run_dir: Path) -> None:
        fd = open_own(run_dir, PACE, os.O_RDWR | os.O_CREAT)
        try:
            is_known = os.fstat(fd).st_size == _SIZE
            os.posix_fallocate(fd, 0, _SIZE)  # on a full disk, writing to a hole would raise SIGBUS later
            os.ftruncate(fd, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        magic, self._count, self._stride, _ = _HEAD.unpack_from(self._map)
        self._logged = 0.0
        """The monotonic time of the last earlier reading, or 0 before the first of this process."""
        if is_known and magic == _MAGIC and 0 <= self._count <= _MOST and self._stride >= _FIRST_STRIDE:
            self._log(self._map[_place(0) : _place(1)])  # where the process before stood when it ended
        else:
            self._count, self._stride = 0, _FIRST_STRIDE
            self._map[_place(0) : _place(1)] = bytes(_READING.size)
        self._owner = ProcessIdentity.here().to_text().encode(errors="replace")
        self._write_head()

    def close(self) -> None:
        """Close the file. Nothing can be written afterwards."""
        self._map.close()

    def write(self, reading: PaceReading) -> None:
        """Write the newest reading, and keep it if the last one kept is old enough."""
        packed = _READING.pack(*reading)
        self._map[_place(0) : _place(1)] = packed
        if not self._logged or reading.monotonic - self._logged >= self._stride:
            self._logged = reading.monotonic
            self._log(packed)
            self._write_head()

    def _log(self, packed: bytes) -> None:
        if self._count == _MOST:
            kept = [self._map[_place(place) : _place(place + 1)] for place in range(1, _MOST + 1, 2)]
            self._count, self._stride = len(kept), 2 * self._stride
            self._map[_place(1) : _place(1 + self._count)] = b"".join(kept)
        self._count += 1
        self._map[_place(self._count) : _place(self._count + 1)] = packed

    def _write_head(self) -> None:
        _HEAD.pack_into(self._map, 0, _MAGIC, self._count, self._stride, self._owner)


def _place(number: int) -> int:
    """Return where a reading begins: the newest has number 0, the earlier ones follow."""
    return _HEAD.size + number * _READING.size


def read_pace(run_dir: Path, rank: int, is_newest_only: bool = False) -> Pace | None:
    """Return what a worker of a run has recorded, or None if that is nothing that can be read. Never raises.

    Args:
        run_dir: the run directory of the whole run.
        rank: the worker's number.
        is_newest_only: True to leave the earlier readings out, which takes less time.
    """
    try:
        with os.fdopen(open_own(folder_of(run_dir, rank), PACE, os.O_RDONLY), "rb") as file:
            is_whole = os.fstat(file.fileno()).st_size == _SIZE
            raw = file.read(_place(1) if is_newest_only else _SIZE)
    except OSError:
        return None
    if not is_whole or len(raw) < _place(1):
        return None
    magic, count, _, owner = _HEAD.unpack_from(raw)
    if magic != _MAGIC or not 0 <= count <= _MOST:
        return None
    places = (*(range(1, 0 if is_newest_only else count + 1)), 0)
    found = tuple(_in_order(PaceReading(*_READING.unpack_from(raw, _place(place))) for place in places))
    identity = ProcessIdentity.from_text(owner.rstrip(b"\0").decode(errors="replace"))
    return Pace(rank, identity or ProcessIdentity(0), found) if found else None


def read_paces(run_dir: Path, is_newest_only: bool = False) -> tuple[Pace, ...]:
    """Return what the workers of a run have recorded, by rank; empty if there is only one worker. Never raises."""
    try:
        ranks = ranks_of(run_dir)
    except OSError:
        return ()
    if len(ranks) == 1:
        return ()
    found = (read_pace(run_dir, rank, is_newest_only) for rank in ranks)
    return tuple(pace for pace in found if pace is not None)


def _in_order(readings: Iterator[PaceReading]) -> Iterator[PaceReading]:
    """Yield the readings that are plausible after the one before: the file may be damaged, or come from elsewhere."""
    before: PaceReading | None = None
    for each in readings:
        if not _is_plausible(each):
            continue
        is_same = before is not None and each.attempt == before.attempt
        if before is not None and (each.attempt < before.attempt or (is_same and not _follows(each, before))):
            continue
        before = each
        yield each


def _is_plausible(each: PaceReading) -> bool:
    times, counts = (each.time, each.monotonic), (each.steps, each.step_seconds)
    return (
        each.attempt > 0
        and all(0 < one < _LATEST for one in times)
        and all(0 <= one < _FARTHEST for one in counts)
        and all(one != one or 0 <= one < _FARTHEST for one in each[5:])
    )


def _follows(each: PaceReading, before: PaceReading) -> bool:
    return each.monotonic > before.monotonic and each.steps >= before.steps and each.step_seconds >= before.step_seconds


def of_newest_attempt(readings: Sequence[PaceReading]) -> list[PaceReading]:
    """Return the readings of the newest attempt."""
    return [each for each in readings if each.attempt == readings[-1].attempt]
