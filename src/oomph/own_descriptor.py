"""A descriptor of oomph's in the process of a script, which may close every number and have its own files under them.

Daemons do: `os.closerange(3, 256)`. What was written to such a number without a look would end up in the script's data.
Standard library only.
"""

from __future__ import annotations

import errno
import os


class OwnDescriptor:
    """A descriptor, and which file it was opened for.

    Args:
        fd: open.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._identity = _identity(fd)

    @property
    def is_ours(self) -> bool:
        """Whether the number still stands for the same file."""
        return self._identity is not None and _identity(self.fd) == self._identity

    def write(self, data: bytes) -> int:
        """Write to it; raises OSError, with EBADF when it is not ours any more."""
        if not self.is_ours:
            raise OSError(errno.EBADF, "the descriptor was closed by the script")
        return os.write(self.fd, data)

    def close(self) -> None:
        """Close it, if it is still ours."""
        if self.is_ours:
            os.close(self.fd)
        self._identity = None


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino
