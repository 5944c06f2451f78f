"""Reads a file's creation time through the kernel's `statx`, which Python does not expose. Standard library only."""

from __future__ import annotations

import os
import struct

_AT_FDCWD, _NO_FOLLOW, _BIRTH = -100, 0x100, 0x800
_MASK, _TIME = struct.Struct("=I"), struct.Struct("=qI")
_BIRTH_AT, _BYTES = 80, 256
_SECOND_NS = 1_000_000_000


def born_at(path: str | os.PathLike[str]) -> int | None:
    """Return the creation time in nanoseconds since 1970, or None if there is no file or no time is recorded.

    Does not follow links. Neither a file's owner nor an archive can set this time.
    """
    import ctypes

    found = ctypes.create_string_buffer(_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), _NO_FOLLOW, _BIRTH, found)
    except (OSError, AttributeError):
        return None  # an older C library
    if failed or not _MASK.unpack_from(found)[0] & _BIRTH:
        return None
    seconds, more = _TIME.unpack_from(found, _BIRTH_AT)
    return int(seconds) * _SECOND_NS + int(more)
