"""One of oomph's file descriptors in the script's process, guarded in case the script reuses its number.

Daemons call `os.closerange(3, 256)` and then open their own files under the same numbers. Without a check, oomph would
write into the script's data. Standard library only.
"""

from __future__ import annotations

import errno
import os


class OwnDescriptor:
    """A descriptor, and the identity of its file.

    Args:
        fd: an open descriptor.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._identity = _identity(fd)

    @property
    def is_ours(self) -> bool:
        """True if the number still refers to the same file."""
        return self._identity is not None and _identity(self.fd) == self._identity

    def write(self, data: bytes) -> int:
        """Write to the file. Raises OSError, with EBADF if the descriptor no longer belongs to oomph."""
        if not self.is_ours:
            raise OSError(errno.EBADF, "the descriptor was closed by the script")
        return os.write(self.fd, data)

    def close(self) -> None:
        """Close the descriptor if it still belongs to oomph."""
        if self.is_ours:
            os.close(self.fd)
        self._identity = None


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    return found.st_dev, found.st_ino
