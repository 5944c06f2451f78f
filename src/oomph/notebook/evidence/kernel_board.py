"""The board of a kernel: a small memory-mapped file with the kernel's last state, which outlives it.

The kernel updates it once a second and at each cell. An update survives `kill -9` of the kernel. Each attempt has its
own board in the folder `kernels` of the run directory.
"""

from __future__ import annotations

import mmap
import os
import re
import struct
import time
import zlib
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import open_folder, open_own, read_own
from oomph.process import available_memory
from oomph.process.process_identity import ProcessIdentity

FOLDER = "kernels"
NO_CELL = 0
_IDENTITY_BYTES = 512
_LAYOUT = struct.Struct("<10q")
_MAGIC = 0x6F6F6D7068_03  # "oomph", and the version of the layout
_UNKNOWN = -1
_BYTES = _IDENTITY_BYTES + _LAYOUT.size
_NAME = re.compile(r"([0-9]{1,9})\.board")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def own_group() -> int:
    """Return a checksum of this process's control group's name. Counters of different groups cannot be compared."""
    return zlib.crc32(_read(Path("/proc/self/cgroup")))


class KernelSample(NamedTuple):
    """The state of a kernel at one moment. Amounts are in bytes, and None if unknown."""

    at_ns: int
    """The `time.monotonic_ns()` of the sample, comparable across processes until the next boot."""
    unix_ns: int
    resident: int | None = None
    """The memory of the kernel's own process."""
    used: int | None = None
    """The memory in use within `total`, by all processes."""
    total: int | None = None
    """The most memory that the kernel may use: its control group's limit, or the machine's memory."""
    oom_kills: int | None = None
    """The number of OOM kills in the kernel's control group so far."""
    group: int = 0
    """The `own_group` of the kernel."""

    @classmethod
    def take(cls, total: int | None) -> KernelSample:
        """Sample this process, which may use `total` bytes of memory."""
        available = None if total is None else available_memory.available_bytes()
        return cls(
            at_ns=time.monotonic_ns(),
            unix_ns=time.time_ns(),
            resident=_resident(),
            used=None if total is None or available is None else total - available,
            total=total,
            oom_kills=available_memory.oom_kills(),
            group=own_group(),
        )


class KernelState(NamedTuple):
    """The last state that a kernel recorded."""

    attempt: int
    kernel: ProcessIdentity
    sample: KernelSample
    cell: int
    """The number of the cell that was running, or NO_CELL."""
    ended: bool
    """True if the kernel ended cleanly, or oomph was disabled in it."""


class KernelBoard:
    """The kernel's own, writable side of the board. Raises OSError if the file cannot be written."""

    def __init__(self, run_dir: Path, attempt: int) -> None:
        fd = open_own(run_dir, f"{FOLDER}/{attempt}.board", os.O_RDWR | os.O_CREAT)
        try:
            os.posix_fallocate(fd, 0, _BYTES)  # otherwise, a hole could cause a SIGBUS later, if the disk is full
            os.ftruncate(fd, _BYTES)
            self._map = mmap.mmap(fd, _BYTES)
        finally:
            os.close(fd)
        identity = ProcessIdentity.here().to_text().encode()[:_IDENTITY_BYTES]
        self._map[:_IDENTITY_BYTES] = identity.ljust(_IDENTITY_BYTES, b"\0")
        self._total, self._cell, self._ended = available_memory.total_bytes(), NO_CELL, False
        self.sample()

    def sample(self) -> None:
        """Record the memory in use now."""
        self._sample = KernelSample.take(self._total)
        self._write()

    def enter(self, cell: int) -> None:
        """Record the number of the cell that starts, or NO_CELL once none is running."""
        self._cell = cell
        self._write()

    def end(self) -> None:
        """Record that the kernel ended cleanly or oomph was disabled, and close the board."""
        self._ended = True
        self._write()
        self._map.close()

    def _write(self) -> None:
        known = (_UNKNOWN if value is None else value for value in self._sample)
        _LAYOUT.pack_into(self._map, _IDENTITY_BYTES, _MAGIC, *known, self._cell, self._ended)


def newest_state(run_dir: Path) -> KernelState | None:
    """Return the state that the newest attempt with a readable board left behind, or None if there is none."""
    try:
        folder = open_folder(run_dir / FOLDER)
    except OSError:
        return None
    try:
        names = os.listdir(folder)
    finally:
        os.close(folder)
    attempts = sorted((int(found[1]) for found in map(_NAME.fullmatch, names) if found), reverse=True)
    return next((state for attempt in attempts if (state := read_state(run_dir, attempt)) is not None), None)


def read_state(run_dir: Path, attempt: int) -> KernelState | None:
    """Return the last state of an attempt's kernel, or None if there is no readable board."""
    try:
        raw = read_own(run_dir, f"{FOLDER}/{attempt}.board", _BYTES)
    except OSError:
        return None
    kernel = ProcessIdentity.from_text(raw[:_IDENTITY_BYTES].rstrip(b"\0").decode(errors="replace"))
    if len(raw) != _BYTES or kernel is None:
        return None
    magic, at_ns, unix_ns, *amounts, group, cell, ended = _LAYOUT.unpack_from(raw, _IDENTITY_BYTES)
    if magic != _MAGIC:
        return None
    resident, used, total, oom_kills = (None if amount == _UNKNOWN else amount for amount in amounts)
    sample = KernelSample(at_ns, unix_ns, resident, used, total, oom_kills, group)
    return KernelState(attempt, kernel, sample, cell, bool(ended))


def _resident() -> int | None:
    fields = _read(Path("/proc/self/statm")).split()
    return int(fields[1]) * _PAGE if len(fields) > 1 else None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
