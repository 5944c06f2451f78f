"""Keeps the end of a stream in a file of the run directory, with secrets redacted."""

from __future__ import annotations

import os

from oomph.files.opening import OwnFile
from oomph.redaction.redaction import redacted

_LONGEST_LINE = 1 << 16


class _RedactedLines:
    """Redacts keys in a stream. Works line by line, since a key may arrive in two chunks."""

    def __init__(self) -> None:
        self._rest = b""
        self._within_key = False

    def take(self, data: bytes, ended: bool = False) -> bytes:
        """Take in data; returns what can be written so far."""
        self._rest += data
        end = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r")) + 1
        if ended or (not end and len(self._rest) > _LONGEST_LINE):
            end = len(self._rest)
        whole, self._rest = self._rest[:end], self._rest[end:]
        if b"PRIVATE KEY-----" not in whole and not self._within_key:
            return _redacted(whole)
        return b"".join(map(self._of_a_private_key, whole.splitlines(keepends=True)))

    def _of_a_private_key(self, line: bytes) -> bytes:
        if b"PRIVATE KEY-----" in line:
            self._within_key = b"-----BEGIN" in line
        elif self._within_key:
            return b""
        return _redacted(line)


def _redacted(data: bytes) -> bytes:
    return redacted(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


class KeptFile:
    """The last `kept_bytes` of a stream, in a file at most twice as long."""

    def __init__(self, file: OwnFile, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._written = 0
        self._lines = _RedactedLines()
        self._fd = _create(file)

    def feed(self, data: bytes) -> None:
        """Append the next chunk; shorten the file whenever it holds twice what is kept."""
        self._write(self._lines.take(data))
        if self._written > 2 * self._kept_bytes:
            self._shorten()

    def close(self) -> None:
        """Close the file with the last `kept_bytes` in it."""
        self._write(self._lines.take(b"", ended=True))
        if self._written > self._kept_bytes:
            self._shorten()
        self._let_go()

    @property
    def is_written(self) -> bool:
        """True if every write so far has succeeded."""
        return self._fd is not None

    def _shorten(self) -> None:
        """Keep the end of the redacted file: a cut in the raw stream could separate a secret from its name."""
        if self._fd is None:
            return
        try:
            kept = os.pread(self._fd, self._kept_bytes, self._written - self._kept_bytes)
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError:
            self._let_go()
            return
        self._written = 0
        self._write(kept)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and self._fd is not None:
                written = os.write(self._fd, view)  # a disk that is almost full may accept only part
                view = view[written:]
                self._written += written
        except OSError:  # a full disk must not end the training
            self._let_go()

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _create(file: OwnFile) -> int | None:
    try:
        return file.open(os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    except OSError:
        return None
