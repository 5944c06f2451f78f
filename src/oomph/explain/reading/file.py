"""A log, or a memory map, that lies in a file or comes through a pipe, as evidence; and what a folder of a run is."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.memory import write_size
from oomph.explain.reading.encodings import looks_binary
from oomph.explain.reading.heap_dump import looks_like_one, read_dump
from oomph.explain.reading.log import Readable, Words, read_log
from oomph.terminal.ticking import Ticking, clear


def is_run(directory: Path) -> bool:
    """True if this directory was written by `oomph run`."""
    return (directory / "run.json").is_file() or (directory / "journal").is_dir()


_HEAD_BYTES = 8192


class Unreadable(ValueError):
    """A log is empty or no text; the message is one sentence for the user."""


def read_file(path: Path, words: Words | None = None, origin: str = "") -> Iterator[Evidence]:
    """Yield the facts in a file as it was when opened. Raises OSError and Unreadable."""
    with path.open("rb", buffering=0) as stream:  # nothing is read ahead: it may be moved over what is not there
        if looks_like_one(stream.read(_HEAD_BYTES) if stream.seekable() else b""):
            try:
                yield read_dump(path)
                return
            except ValueError:
                pass  # it only begins like one
        if stream.seekable():
            stream.seek(0)
        mode, size = (found := os.fstat(stream.fileno())).st_mode, found.st_size
        yield from read_stream(stream, str(path), words, origin, size if stat.S_ISREG(mode) else None)


def read_stream(
    stream: BinaryIO | FileIO, subject: str, words: Words | None = None, origin: str = "", size: int | None = None
) -> Iterator[Evidence]:
    """Yield the facts in at most `size` bytes of a stream. Raises Unreadable if it is empty, binary or blank."""
    source = _Source(stream, size)
    if not source.head:
        raise Unreadable(f"{subject} is empty")
    if looks_binary(source.head):
        raise Unreadable(f"{subject} is not a text: it holds binary data")
    yield from read_log(source, origin, words)
    if not source.has_text:
        raise Unreadable(f"{subject} holds nothing but NUL bytes, as a file may after a power cut")


class _Source(Readable):
    """A stream whose first bytes were inspected (a pipe cannot be rewound), with a limit and progress."""

    def __init__(self, stream: BinaryIO | FileIO, size: int | None) -> None:
        self._stream, self._size = stream, size
        self.head = self._unread = stream.read(_HEAD_BYTES)
        self.has_text = False
        """True if any byte so far was not NUL."""
        self._given, self._ticking = 0, Ticking()

    def read(self, size: int, /) -> bytes:
        """The first bytes again, then the rest."""
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
        """Skip to the next data: a sparse file of a terabyte may hold a few lines."""
        if self._size is None:
            return
        try:
            here = os.lseek(self._stream.fileno(), 0, os.SEEK_CUR)
            there = os.lseek(self._stream.fileno(), here, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                return  # a file system, or a stream, that does not tell
            there = here + self._size - self._given  # a hole up to the end
            os.lseek(self._stream.fileno(), there, os.SEEK_SET)
        self._given += there - here

    def _tell(self, ended: bool) -> None:
        """Show a waiting user how much has been read."""
        if ended:
            clear()
            return
        whole = f" of {write_size(self._size)}" if self._size else ""
        self._ticking.tick(f"{write_size(self._given)}{whole} read")
