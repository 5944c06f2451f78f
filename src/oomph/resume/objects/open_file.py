"""OpenFile: a file that the user's code holds open, such as a log it is still writing."""

from __future__ import annotations

import io
import os
import stat
from typing import Any

import numpy as np

from oomph.keras_bridge import fingerprints
from oomph.protocol.reason_table import OPEN_FILE
from oomph.resume.objects.arrays import Large
from oomph.resume.objects.kind import CannotGiveBackError, Decode, Encode, Kind
from oomph.resume.objects.values import Value
from oomph.script.named_paths import may_be_restored

CLASSES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedReader, io.FileIO)
_MOST_BYTES = 4 << 20
_STANDARD_STREAMS = 2


class OpenFile(Kind):
    """The content of a file opened for writing, or the position in one opened for reading only."""

    tag = "open file"
    arrays = True

    def content(self, thing: Any, encode: Encode) -> Value:
        if thing.closed:
            return ("closed",)
        if not _is_regular(thing):
            return None
        if not thing.writable():
            return ("at", thing.tell())
        thing.flush()
        size = os.fstat(thing.fileno()).st_size
        if size > _MOST_BYTES:
            return ("of bytes", size)
        found = self.array(thing)
        return ("large", *Large(fingerprints.of_array(found), "|u1", found.shape))

    def array(self, thing: Any) -> Any:
        """The content of the file: uint8 [N]."""
        fd = os.open(f"/proc/self/fd/{thing.fileno()}", os.O_RDONLY)
        with open(fd, "rb") as file:
            return np.frombuffer(file.read(), np.uint8)

    def give_back(self, thing: Any, content: Value, decode: Decode) -> None:
        match content:
            case None:
                pass
            case ("closed",):
                thing.close()
            case ("at", int() as position):
                thing.seek(position)
            case ("large", *_):
                _rewrite(thing, decode(content).tobytes())
            case _:
                raise CannotGiveBackError("a large open file", OPEN_FILE)


def _rewrite(thing: Any, content: bytes) -> None:
    if not may_be_restored(os.readlink(f"/proc/self/fd/{thing.fileno()}"), content):
        raise CannotGiveBackError("an open file whose content may run something")
    thing.flush()
    thing.seek(0)
    thing.truncate(0)
    raw = thing.buffer if isinstance(thing, io.TextIOWrapper) else thing
    raw.write(content)
    raw.flush()
    thing.seek(0, os.SEEK_END)


def _is_regular(thing: Any) -> bool:
    fd = thing.fileno()
    return fd > _STANDARD_STREAMS and stat.S_ISREG(os.fstat(fd).st_mode)
