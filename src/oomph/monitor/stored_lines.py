"""Lines of a plain and of a compressed file, in bounded memory whatever the files hold."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

MOST_LINE = 256 << 10
"""Longer lines are not ours: sixteen GPUs with hundreds of processes need far less."""
MOST_MEMBER = 301 * MOST_LINE
"""A gzip member that holds more is not ours: a header and 300 samples."""
GZIP = 31
"""zlib's number for a gzip member with a 32 KiB window."""
_MEMBER = bytes.fromhex("1f8b080000000000")
"""The beginning of a member of ours: no name, no time."""
_READ, _HELD = 8 << 10, 64 << 10


def plain_lines(file: BinaryIO) -> Iterator[bytes]:
    """The whole lines from the file's position; text after the last newline is not a line yet."""
    yield from _lines(iter(lambda: file.read(_HELD), b""))


def compressed_lines(file: BinaryIO, end: int | None = None) -> Iterator[bytes]:
    """The lines of a file of gzip members up to byte `end`. Of a damaged member, those before the damage."""
    begin: int | None = 0
    while begin is not None:
        file.seek(begin)
        member = _Member(file, end)
        yield from _lines(member.content())
        begin = member.end if member.end is not None else _next_member(file, begin + 1, end)


class _Member:
    """One gzip member. `end` is where the next one begins; None if this one is damaged or not whole."""

    def __init__(self, file: BinaryIO, limit: int | None) -> None:
        self._file, self._limit = file, limit
        self.end: int | None = None

    def content(self) -> Iterator[bytes]:
        """Yield its content in chunks."""
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
    """The position of the next member, or None."""
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
