"""Opens regular files only: reading a FIFO in their place would never end. Used in both processes."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open the file for reading. Raises OSError for anything unreadable or not a regular file."""
    if "\0" in os.fspath(path):
        raise OSError(errno.EINVAL, "not a file name", os.fspath(path))
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # does not wait for the writer of a FIFO
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(fd, "rb")


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Read the whole file; raises what `open_regular` raises, and OSError for more than `most` bytes."""
    with open_regular(path) as file:
        content = file.read() if most is None else file.read(most + 1)
    if most is not None and len(content) > most:
        raise OSError(errno.EFBIG, "larger than expected", str(path))
    return content
