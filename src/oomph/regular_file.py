"""Opens what is meant to be a regular file, and nothing else: a FIFO in its place would never come to an end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading. Raises OSError for whatever cannot be read, and for all that is no file."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "no name of a file", os.fspath(path))
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # without waiting for the writer of a FIFO
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(fd, "rb")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """All that is in it; raises what `open_regular` raises, and OSError for what has more than `most` bytes."""
    with open_regular(path) as file:
        content = file.read() if most is None else file.read(most + 1)
    if most is not None and len(content) > most:
        raise OSError(errno.EFBIG, "larger than it should be", str(path))
    return content
