"""Witnesses: records of the results of steps that survive `kill -9`.

A resumed training repeats the steps after its checkpoint. Each of them left a witness: a digest of its batch, its loss,
and a digest of everything it reported; each epoch left a digest of the state. If the repeated steps give the same
results, the resume is verified. The file is a memory-mapped ring: a record survives its writer, and writing one costs
about a microsecond. Runs in the script process; standard library only.
"""

from __future__ import annotations

import mmap
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from oomph.files.run_files import open_own

STEP, EPOCH, END = 1, 2, 3
"""The kinds of witness: a step, the end of an epoch, the end of a fit."""
WITNESSES = "witness"
"""The name of the ring in a run directory."""
_CAPACITY = 8192
_FIELDS = struct.Struct("<QIIIIQQddQQ")
_RECORD = struct.Struct(f"<{_FIELDS.size}sI4x")
"""The layout of a record: its fields, and a checksum that invalidates a record that a kill cut short."""


class Witness(NamedTuple):
    """The record of one step or one epoch. A field that is unknown is 0."""

    key: int
    """The key of the fit."""
    kind: int
    epoch: int
    step: int
    """The number of the step, counted from 0 within the epoch."""
    batch: int = 0
    """A digest of the batch."""
    result: int = 0
    """A digest of the step's logs; at the end of an epoch or fit, of the state."""
    loss: float = 0.0
    rate: float = 0.0
    """The learning rate."""
    random: int = 0
    """A digest of the random generators' states after the step."""


class WitnessBoard:
    """The ring of one run, written by the owner process. Raises OSError when the file cannot be created.

    Args:
        run_dir: the run directory.
        attempt: the current attempt.
    """

    def __init__(self, run_dir: Path, attempt: int) -> None:
        size = _CAPACITY * _RECORD.size
        fd = open_own(run_dir, WITNESSES, os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, size)  # a hole that a full disk cannot fill would be a SIGBUS later
            os.ftruncate(fd, size)
            self._map = mmap.mmap(fd, size)
        finally:
            os.close(fd)
        self._attempt = attempt
        found = sorted(_records(self._map))
        self.before = [witness for _, _, witness in found]
        """The witnesses of earlier attempts, oldest first."""
        self._sequence = found[-1][0] if found else 0

    def write(self, witness: Witness) -> None:
        """Append a witness."""
        self._sequence += 1
        key, kind, epoch, step, batch, result, loss, rate, random = witness
        fields = _FIELDS.pack(key, kind, epoch, step, self._attempt, batch, result, loss, rate, random, self._sequence)
        _RECORD.pack_into(self._map, self._sequence % _CAPACITY * _RECORD.size, fields, zlib.crc32(fields))


def _records(board: mmap.mmap) -> Iterable[tuple[int, int, Witness]]:
    """Yield the intact records of a ring: sequence number, attempt, witness."""
    for packed, checksum in _RECORD.iter_unpack(board[:]):
        key, kind, epoch, step, attempt, batch, result, loss, rate, random, sequence = _FIELDS.unpack(packed)
        if sequence and zlib.crc32(packed) == checksum:
            yield sequence, attempt, Witness(key, kind, epoch, step, batch, result, loss, rate, random)
