"""A file system watch: what was created, changed, moved or removed in some folders (inotify(7))."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_EVENT = struct.Struct("iIII")
_CHANGES = 0x2 | 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800
"""IN_MODIFY, IN_ATTRIB, IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_MOVE_SELF."""


class Watch:
    """Watches from its creation until it is closed."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._fd = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._names: dict[int, Path] = {}
        for folder in folders:
            number = _LIBC.inotify_add_watch(self._fd, bytes(folder), _CHANGES)
            assert number >= 0, os.strerror(ctypes.get_errno())
            self._names[number] = folder

    def seen(self) -> set[str]:
        """Return the paths that have changed since the last call."""
        found = set()
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                return found
            place = 0
            while place < len(data):
                number, _, _, length = _EVENT.unpack_from(data, place)
                assert number in self._names, "the kernel has dropped events: nobody asked for them in time"
                name = data[place + _EVENT.size : place + _EVENT.size + length].rstrip(b"\0")
                found.add(str(self._names[number] / os.fsdecode(name)))
                place += _EVENT.size + length

    def close(self) -> None:
        os.close(self._fd)
