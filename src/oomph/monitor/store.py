"""The store: keeps every sample of a run, on disk within a second, compressed, and readable while it is written.

There are two files in the run directory. The newest samples are lines in `monitor/samples.jsonl`, the tail. Each is one
unbuffered write, so none is lost if the process is killed. Every 300 samples, the tail becomes a gzip member at the end
of `monitor/samples.jsonl.gz`. The tail's first line gives the byte at which that member will start: a reader reads the
compressed file up to that byte, and then the tail. Each sample is therefore read exactly once, no matter when the
writer dies:

    before the member is written         the compressed file ends at that byte
    while or after it is written         everything beyond that byte is also in the tail, and is ignored
    after the tail has been replaced     the new tail gives the byte at which the member ends

A writer that finds an existing tail first compresses it, starting at that byte.
"""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from oomph.files.opening import open_own, replace_own
from oomph.monitor.sample import Header, Sample, header_line, read_header, read_row, read_sample, sample_line

FOLDER = "monitor"
TAIL = f"{FOLDER}/samples.jsonl"
COMPRESSED = f"{FOLDER}/samples.jsonl.gz"
LOCK = f"{FOLDER}/lock"
_TAIL_SAMPLES = 300
_SYNC_SECONDS = 10.0
_RETRY_SAMPLES = 30
"""The number of samples to skip after a failure before trying again."""


class Store:
    """The writing end. It never raises: `problem` gives the reason if samples are not kept."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self.problem = ""
        """The reason why samples are not being stored; empty while they are."""
        self._lock: int | None = None
        self._tail: int | None = None
        self._samples = 0
        """The number of samples in the tail."""
        self._missed = 0
        self._synced = 0.0

    def append(self, sample: Sample) -> None:
        """Write one sample."""
        if self._missed % _RETRY_SAMPLES:
            self._missed += 1
            return
        try:
            self._write(sample_line(sample))
            if abs(sample.time - self._synced) >= _SYNC_SECONDS:
                self._synced = sample.time
                self._flush()
        except OSError as error:
            self._fail(error)
        else:
            self.problem, self._missed = "", 0

    def sync(self) -> None:
        """Flush everything written so far to disk, so that it survives a power failure."""
        try:
            self._flush()
        except OSError as error:
            self._fail(error)

    def close(self) -> None:
        """Close the files. The tail is left as it is."""
        self.sync()
        self._release_tail()
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None

    def _write(self, line: bytes) -> None:
        if len(line) > MOST_LINE:
            raise OSError(errno.EFBIG, "too many processes on the GPUs")
        if self._lock is None:
            self._lock = self._locked()
        if self._tail is None or self._samples >= _TAIL_SAMPLES:
            self._begin_tail(line)
        elif os.write(self._tail, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._samples += 1

    def _begin_tail(self, line: bytes) -> None:
        """Compress the tail, if there is one, and start a new one with this sample."""
        replace_own(self._run_dir, TAIL, header_line(_compress_tail(self._run_dir)) + line)
        self._release_tail()
        self._tail = open_own(self._run_dir, TAIL, os.O_WRONLY | os.O_APPEND)
        self._samples = 0

    def _locked(self) -> int:
        lock = open_own(self._run_dir, LOCK, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise OSError(errno.EAGAIN, "another process is writing them") from None
        return lock

    def _flush(self) -> None:
        if self._tail is not None:
            os.fdatasync(self._tail)

    def _fail(self, error: OSError) -> None:
        """Abandon the tail, which may end in an incomplete line. A later sample starts a new tail."""
        self.problem = f"samples are not stored: {error.strerror or error}"
        self._missed += 1
        self._release_tail()

    def _release_tail(self) -> None:
        if self._tail is not None:
            os.close(self._tail)
        self._tail = None


def _compress_tail(run_dir: Path) -> int:
    """Append the tail to the compressed file, and return the new end of that file."""
    with ExitStack() as files:
        fd = open_own(run_dir, COMPRESSED, os.O_RDWR | os.O_CREAT)
        compressed = files.enter_context(os.fdopen(fd, "r+b"))
        end = compressed.seek(0, os.SEEK_END)
        tail = _opened(run_dir, TAIL, files)
        if tail is None:
            return end
        header = read_header(tail.readline(MOST_LINE))
        begin = end if header is None else min(header.at, end)  # any data beyond it is from a killed writer
        compressed.truncate(compressed.seek(begin))
        tail.seek(0)
        compressed.writelines(_deflated(tail))
        compressed.flush()
        os.fsync(fd)  # before the tail is replaced
        return compressed.tell()


def _deflated(file: BinaryIO) -> Iterator[bytes]:
    deflate = zlib.compressobj(wbits=GZIP)
    while file.tell() < MOST_MEMBER and (chunk := file.read(64 << 10)):
        yield deflate.compress(chunk)
    yield deflate.flush()


def read(run_dir: Path) -> Iterator[Sample]:
    """Yield the samples of a run, oldest first, even while they are written. Never raises; skips anything else."""
    return _samples(_all_lines(run_dir))


def read_rows(run_dir: Path) -> Iterator[tuple[Header, list[Any]]]:
    """Yield the samples of a run as plain rows, which takes a fifth of the time: for whoever reads a day of them.

    Each row comes with the header that names its columns. Its values are unchecked: the file may come from elsewhere.
    """
    for header, line in _with_headers(_all_lines(run_dir)):
        row = read_row(line)
        if row is not None:
            yield header, row


def _all_lines(run_dir: Path) -> Iterator[bytes]:
    with ExitStack() as files:
        try:
            tail = _opened(run_dir, TAIL, files)  # first, since later members start beyond its byte
            header = None if tail is None else read_header(tail.readline(MOST_LINE))
            compressed = _opened(run_dir, COMPRESSED, files)
            if compressed is not None:
                yield from compressed_lines(compressed, None if header is None else header.at)
            if tail is not None:
                tail.seek(0)
                yield from plain_lines(tail)
        except OSError:
            return  # the disk cannot read the rest


class RecentSamples:
    """The newest samples of a run, at most `count`. Each call reads only what was added. Reading never raises."""

    def __init__(self, run_dir: Path, count: int) -> None:
        self._run_dir = run_dir
        self._kept: deque[Sample] = deque(maxlen=count)
        self._head, self._read_to = b"", 0
        """The tail's first line, which differs for each tail, and the end of the lines that were read."""

    def read(self) -> tuple[Sample, ...]:
        """Return the newest samples, in the order in which they were written."""
        with ExitStack() as files:
            try:
                tail = _opened(self._run_dir, TAIL, files)
                if tail is not None:
                    self._follow(tail, files)
            except OSError:
                pass  # the disk cannot read the rest
        return tuple(self._kept)

    def _follow(self, tail: BinaryIO, files: ExitStack) -> None:
        head = tail.readline(MOST_LINE)
        header = read_header(head)
        if header is None:
            return
        if head != self._head:  # a new tail: what was not yet read of the old one is in the last gzip member
            self._head, self._read_to = head, len(head)
            self._kept.clear()
            compressed = _opened(self._run_dir, COMPRESSED, files)
            if compressed is not None:
                self._kept.extend(_samples(_last_member(compressed, header.at)))
        tail.seek(self._read_to)
        for line in plain_lines(tail):
            self._read_to += len(line) + 1
            if (sample := read_sample(line, header)) is not None:
                self._kept.append(sample)


def newest(run_dir: Path) -> Sample | None:
    """Return the newest sample of a run, or None. Only the end of the tail is read."""
    with ExitStack() as files:
        try:
            tail = _opened(run_dir, TAIL, files)
            header = None if tail is None else read_header(tail.readline(MOST_LINE))
            if tail is None or header is None:
                return None
            tail.seek(max(tail.seek(0, os.SEEK_END) - MOST_LINE, 0))
            lines = tail.read(MOST_LINE).split(b"\n")[:-1]
        except OSError:
            return None
    found = (read_sample(line, header) for line in reversed(lines))
    return next((sample for sample in found if sample is not None), None)


def _samples(lines: Iterable[bytes]) -> Iterator[Sample]:
    for header, line in _with_headers(lines):
        sample = read_sample(line, header)
        if sample is not None:
            yield sample


def _with_headers(lines: Iterable[bytes]) -> Iterator[tuple[Header, bytes]]:
    header: Header | None = None
    for line in lines:
        if line.startswith(b'{"schema"'):
            header = read_header(line)
        elif header is not None:
            yield header, line


def _opened(run_dir: Path, name: str, files: ExitStack) -> BinaryIO | None:
    try:
        return files.enter_context(os.fdopen(open_own(run_dir, name, os.O_RDONLY), "rb"))
    except OSError:
        return None


# -- the lines of a stored file ---------------------------------------------------------------------------------------

MOST_LINE = 256 << 10
"""The length of the longest line to read, in bytes. Sixteen GPUs with hundreds of processes need far less."""
MOST_MEMBER = 301 * MOST_LINE
"""The maximum size of a gzip member to read, in bytes: a header and 300 samples."""
GZIP = 31
"""The zlib `wbits` value for a gzip member with a 32 KiB window."""
_MEMBER = bytes.fromhex("1f8b080000000000")
"""The first bytes of a gzip member written by oomph, which has no name and no time."""
_READ, _HELD = 8 << 10, 64 << 10
_MOST_SEARCHED = 4 << 20
"""The number of bytes in which the last member must begin. Eight GPUs need 73 KB a member."""


def plain_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the complete lines from the file's current position. Text after the last newline is not yet a line."""
    yield from _lines(iter(lambda: file.read(_HELD), b""))


def compressed_lines(file: BinaryIO, end: int | None = None) -> Iterator[bytes]:
    """Yield the lines in a file of gzip members up to byte `end`. Damaged members yield the lines before the damage."""
    begin: int | None = 0
    while begin is not None:
        file.seek(begin)
        member = _Member(file, end)
        yield from _lines(member.content())
        begin = member.end if member.end is not None else _next_member(file, begin + 1, end)


def _last_member(file: BinaryIO, end: int) -> Iterator[bytes]:
    """Yield the lines of the last gzip member before byte `end`."""
    end = min(end, file.seek(0, os.SEEK_END))  # a damaged header may name any byte
    begin = file.seek(max(end - _MOST_SEARCHED, 0))
    place = file.read(end - begin).rfind(_MEMBER)
    if place >= 0:
        file.seek(begin + place)
        yield from _lines(_Member(file, end).content())


class _Member:
    """A gzip member. `end` is the start of the next member, or None if this one is damaged or incomplete."""

    def __init__(self, file: BinaryIO, limit: int | None) -> None:
        self._file, self._limit = file, limit
        self.end: int | None = None

    def content(self) -> Iterator[bytes]:
        """Yield the contents of the member in chunks."""
        inflate, size = zlib.decompressobj(GZIP), 0
        while not inflate.eof:
            taken = inflate.unconsumed_tail or _read(self._file, self._limit)
            if not taken or size > MOST_MEMBER:
                return
            try:
                held = inflate.decompress(taken, _HELD)
            except zlib.error:
                return
            size += len(held)
            yield held
        self.end = self._file.tell() - len(inflate.unused_data)


def _read(file: BinaryIO, limit: int | None) -> bytes:
    return file.read(_READ if limit is None else max(min(_READ, limit - file.tell()), 0))


def _next_member(file: BinaryIO, begin: int, limit: int | None) -> int | None:
    """Return the position of the next member, or None if there is none before `limit`."""
    file.seek(begin)
    kept = b""
    while chunk := _read(file, limit):
        place = (kept + chunk).find(_MEMBER)
        if place >= 0:
            return file.tell() - len(kept) - len(chunk) + place
        kept = (kept + chunk)[1 - len(_MEMBER) :]
    return None


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    rest, too_long = b"", False
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if not too_long and len(line) <= MOST_LINE:
                yield line
            too_long = False
        if len(rest) > MOST_LINE:
            rest, too_long = b"", True
