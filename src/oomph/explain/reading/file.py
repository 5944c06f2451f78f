"""Reads a log or memory map from a file or pipe as evidence, and recognises run directories.

When an allocator runs out of memory, TensorFlow writes a map of it if TF_BFC_MEMORY_DUMP=<prefix> is set: the file
`<prefix>_<allocator>.<microseconds>` is a serialized `tensorflow.MemoryDump`. Only the few fields that are needed are
decoded. Sources: tensorflow/core/protobuf/bfc_memory_map.proto; protobuf's encoding guide.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, TypeAlias

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.memory import MAP_SOURCE, write_size
from oomph.explain.reading.encodings import looks_binary
from oomph.explain.reading.log import Readable, Words, read_log
from oomph.files.opening import read_regular
from oomph.terminal.console import Ticking, clear_line

LARGEST_DUMP = 64 << 20
_NAME, _CHUNK, _STATS = 1, 3, 5
_SIZE, _OP_NAME, _IN_USE = 2, 5, 8
_PEAK = 3
_MOST_USERS = 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Value: TypeAlias = "int | bytes"


def looks_like_dump(data: bytes) -> bool:
    """True if these bytes start like a memory dump, which begins with the name of an allocator."""
    length = data[1] if len(data) > 2 and data[0] == (_NAME << 3 | _BYTES) else 0
    name = data[2 : 2 + length]
    return 2 < length < 100 and len(name) == length and b"bfc" in name and name.isascii()


def read_dump(path: Path) -> Evidence:
    """Read a memory dump. Return the fact that the allocator ran out of memory, with its statistics.

    Raises ValueError if the file is anything else, and OSError if it cannot be read.
    """
    if path.stat().st_size > LARGEST_DUMP:
        raise ValueError(f"{path.name} is too large for a memory map")
    return describe_dump(read_regular(path), path.name)


def describe_dump(data: bytes, origin: str = "") -> Evidence:
    """Decode a memory dump. Return the fact that the allocator ran out of memory, with its statistics."""
    name, peak, free, users = "", 0, [0], Counter[str]()
    for field, value in _fields(data):
        if field == _NAME and isinstance(value, bytes):
            name = value.decode("ascii", "replace")
        elif field == _CHUNK and isinstance(value, bytes):
            chunk = dict(_fields(value))
            size, op = chunk.get(_SIZE, 0), chunk.get(_OP_NAME, b"")
            if isinstance(size, int) and isinstance(op, bytes) and chunk.get(_IN_USE):
                users[op.decode("utf-8", "replace") or "?"] += size
            elif isinstance(size, int):
                free.append(size)
        elif field == _STATS and isinstance(value, bytes):
            found = dict(_fields(value)).get(_PEAK, 0)
            peak = found if isinstance(found, int) else 0
    if not name:
        raise ValueError("the allocator is not named")
    most = "; ".join(f"{op} {write_size(size)}" for op, size in users.most_common(_MOST_USERS))
    text = (
        f"memory map of {name}: {write_size(sum(users.values()))} in use, at most {write_size(peak)} before; "
        f"free {write_size(sum(free))}, the largest piece {write_size(max(free))}; largest users: {most}"
    )
    return Evidence(MAP_SOURCE, text, origin=origin)


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """Yield the fields of a message, in order. Raises ValueError if it is truncated or not a message at all."""
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == _VARINT:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, place = _varint(data, place)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind}")
        if place + length > len(data):
            raise ValueError("cut short")
        yield tag >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise ValueError("cut short")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value, place


def is_run(directory: Path) -> bool:
    """True if this directory was written by `oomph run`."""
    return os.path.isfile(directory / "run.json") or os.path.isdir(directory / "journal")


_HEAD_BYTES = 8192


class Unreadable(ValueError):
    """Raised if a log is empty or not text. The message is one sentence for the user."""


def read_file(path: Path, words: Words | None = None, origin: str = "") -> Iterator[Evidence]:
    """Yield the facts in a file, up to its size when opened. Raises OSError or Unreadable if it cannot be read."""
    with path.open("rb", buffering=0) as stream:  # unbuffered, so that seeking past a hole works
        if looks_like_dump(stream.read(_HEAD_BYTES) if stream.seekable() else b""):
            try:
                yield read_dump(path)
                return
            except ValueError:
                pass  # it only starts like a dump
        if stream.seekable():
            stream.seek(0)
        mode, size = (found := os.fstat(stream.fileno())).st_mode, found.st_size
        yield from read_stream(stream, str(path), words, origin, size if stat.S_ISREG(mode) else None)


def read_stream(
    stream: BinaryIO | FileIO, subject: str, words: Words | None = None, origin: str = "", size: int | None = None
) -> Iterator[Evidence]:
    """Yield the facts in the first `size` bytes of a stream. Raises Unreadable if it is empty, binary or all NULs."""
    source = _Source(stream, size)
    if not source.head:
        raise Unreadable(f"{subject} is empty")
    if looks_binary(source.head):
        raise Unreadable(f"{subject} is not text: it contains binary data")
    yield from read_log(source, origin, words)
    if not source.has_text:
        raise Unreadable(f"{subject} contains nothing but NUL bytes, as can happen after a power cut")


class _Source(Readable):
    """A stream whose first bytes can be inspected (a pipe cannot be rewound), with a limit and a progress display."""

    def __init__(self, stream: BinaryIO | FileIO, size: int | None) -> None:
        self._stream, self._size = stream, size
        self.head = self._unread = stream.read(_HEAD_BYTES)
        self.has_text = False
        """True if any byte read so far was not NUL."""
        self._given, self._ticking = 0, Ticking()

    def read(self, size: int, /) -> bytes:
        """Return the first bytes again, then the rest."""
        data, self._unread = self._unread, b""
        if not data:
            self._pass_over_hole()
            most = size if self._size is None else min(size, self._size - self._given)
            data = self._stream.read(most) if most > 0 else b""
        self._given += len(data)
        self.has_text = self.has_text or bool(data.strip(b"\0"))
        self._tell(ended=not data)
        return data

    def _pass_over_hole(self) -> None:
        """Skip to the next data, since a sparse file of a terabyte may contain only a few lines."""
        if self._size is None:
            return
        try:
            here = os.lseek(self._stream.fileno(), 0, os.SEEK_CUR)
            there = os.lseek(self._stream.fileno(), here, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return  # the file system or stream does not support this
            there = here + self._size - self._given  # the hole extends to the end
            os.lseek(self._stream.fileno(), there, os.SEEK_SET)
        self._given += there - here

    def _tell(self, ended: bool) -> None:
        """Show a waiting user how much has been read."""
        if ended:
            clear_line()
            return
        whole = f" of {write_size(self._size)}" if self._size else ""
        self._ticking.tick(f"{write_size(self._given)}{whole} read")
