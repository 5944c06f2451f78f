"""The board: a file of numbers in which the training process passes its own measurements to the sampler.

It is memory-mapped, like the progress board: a write costs well under a microsecond and survives `kill -9`. This module
runs in both processes. One is the script's, so it needs only the standard library.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import time
import zlib
from pathlib import Path

from oomph.files.opening import open_own
from oomph.monitor.census import Census, as_document, census_of
from oomph.monitor.metrics import of_scope
from oomph.monitor.sample import Baseline

BOARD = "training"
"""The name of the board in a run directory."""
_MAGIC = 0x6F6F6D7068_03  # "oomph", the third kind of board
_KEYS = tuple(metric.key for metric in of_scope("training"))
_RING = 64
_HEAD = struct.Struct("<3q")
"""The file header: a magic number, the pid, and the number of baselines so far."""
_NUMBERS = struct.Struct(f"<{1 + len(_KEYS)}d")
"""The numbers in the file: the time of the last write (`time.monotonic`), and one value per metric, NaN if not
measured."""
_BASELINE = struct.Struct("<qdqd")
"""One baseline: step, bytes in use, epoch, time."""
_CENSUS = struct.Struct("<qII")
"""The header of the newest census: its number, counted from 1, its length in bytes, and its CRC-32."""
_CENSUS_PLACE = _HEAD.size + _NUMBERS.size + _RING * _BASELINE.size
_CENSUS_TEXT = _CENSUS_PLACE + _CENSUS.size
_CENSUS_BYTES = 12 << 10
_SIZE = _CENSUS_TEXT + _CENSUS_BYTES
_PLACES = {key: _HEAD.size + 8 * (1 + place) for place, key in enumerate(_KEYS)}
_NUMBER = struct.Struct("<d")


class TrainingBoard:
    """The writing end, used by the training process. Raises OSError if the file cannot be created."""

    def __init__(self, run_dir: Path) -> None:
        fd = open_own(run_dir, BOARD, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, _SIZE)  # on a full disk, writing to a hole would raise SIGBUS later
            os.ftruncate(fd, _SIZE)
            self._map = mmap.mmap(fd, _SIZE)
        finally:
            os.close(fd)
        self._baselines = self._censuses = 0
        _CENSUS.pack_into(self._map, _CENSUS_PLACE, 0, 0, 0)
        _NUMBERS.pack_into(self._map, _HEAD.size, time.monotonic(), *[float("nan")] * len(_KEYS))
        _HEAD.pack_into(self._map, 0, _MAGIC, os.getpid(), 0)

    def close(self) -> None:
        """Close the file. Nothing can be written afterwards."""
        self._map.close()

    def write(self, key: str, value: float) -> None:
        """Write a metric of the "training" scope. Raises KeyError for any other metric."""
        _NUMBER.pack_into(self._map, _PLACES[key], value)

    def beat(self) -> None:
        """Record the current time as the time of the last write."""
        _NUMBER.pack_into(self._map, _HEAD.size, time.monotonic())

    def add_baseline(self, step: int, bytes_in_use: float, epoch: int = 0) -> None:
        """Add a baseline. The last 64 are kept for the reader.

        Args:
            step: the number of steps completed.
            bytes_in_use: the number of bytes in use in the allocator.
            epoch: the number, counted from 1, of the epoch that has just ended, or 0 within an epoch.
        """
        place = _HEAD.size + _NUMBERS.size + self._baselines % _RING * _BASELINE.size
        _BASELINE.pack_into(self._map, place, step, bytes_in_use, epoch, time.time())
        self._baselines += 1
        _HEAD.pack_into(self._map, 0, _MAGIC, os.getpid(), self._baselines)

    def write_census(self, census: Census) -> None:
        """Replace the census. It is dropped if its names are so long that it does not fit."""
        text = json.dumps(as_document(census), separators=(",", ":")).encode()
        if len(text) > _CENSUS_BYTES:
            return
        self._censuses += 1
        self._map[_CENSUS_TEXT : _CENSUS_TEXT + len(text)] = text
        _CENSUS.pack_into(self._map, _CENSUS_PLACE, self._censuses, len(text), zlib.crc32(text))


class BoardReader:
    """The reading end, used by the sampler. It never raises: a missing or damaged board yields no values."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._pid, self._seen, self._census_seen = 0, 0, 0
        self._raw = b""

    def read(self) -> tuple[dict[str, float], tuple[Baseline, ...]]:
        """Return the measured values and the baselines added since the last call."""
        self._raw = b""
        try:
            with os.fdopen(open_own(self._run_dir, BOARD, os.O_RDONLY), "rb") as file:
                raw = file.read(_SIZE + 1)
        except OSError:
            return {}, ()
        if len(raw) != _SIZE:
            return {}, ()
        magic, pid, count = _HEAD.unpack_from(raw)
        if magic != _MAGIC or count < 0:
            return {}, ()
        self._raw = raw
        _, *numbers = _NUMBERS.unpack_from(raw, _HEAD.size)
        return {key: value for key, value in zip(_KEYS, numbers, strict=True) if value == value}, self._new(
            raw, pid, count
        )

    def _new(self, raw: bytes, pid: int, count: int) -> tuple[Baseline, ...]:
        if pid != self._pid:  # a different attempt
            self._pid, self._seen, self._census_seen = pid, 0, 0
        begin, self._seen = max(self._seen, count - _RING), count
        return tuple(_baseline(raw, number, pid) for number in range(begin, count))

    def census(self) -> Census | None:
        """Return the census in what `read` has just read, or None if it has been returned before."""
        if not self._raw:
            return None
        number, length, crc = _CENSUS.unpack_from(self._raw, _CENSUS_PLACE)
        if number == self._census_seen or not 0 < length <= _CENSUS_BYTES:
            return None
        text = self._raw[_CENSUS_TEXT : _CENSUS_TEXT + length]
        if zlib.crc32(text) != crc:
            return None  # it is being written, so the next reading has it
        self._census_seen = number
        try:
            return census_of(json.loads(text))
        except (ValueError, RecursionError):
            return None


def _baseline(raw: bytes, number: int, pid: int) -> Baseline:
    place = _HEAD.size + _NUMBERS.size + number % _RING * _BASELINE.size
    step, bytes_in_use, epoch, at = _BASELINE.unpack_from(raw, place)
    return Baseline(step, bytes_in_use, epoch, at, pid)
