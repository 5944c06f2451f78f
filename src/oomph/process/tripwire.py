"""The tripwire: the kernel ends the script's process group when the supervisor has been killed. Supervisor process.

The watchdog does so too, but may be killed with the supervisor: `pkill -9 -f oomph` finds both. The tripwire needs no
surviving process. Only the supervisor holds the writing end of a pipe. When that end closes, the kernel signals the
owner set on the other end, which the script's processes have inherited (fcntl(2): F_SETOWN, F_SETSIG, O_ASYNC).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal


class Tripwire:
    """A tripwire for one process group."""

    def __init__(self) -> None:
        self.script_fd, self._held_fd = os.pipe()

    def set(self, group: int) -> None:
        """From now on, the group does not outlive this process."""
        with contextlib.suppress(OSError):  # a kernel without this: the watchdog remains
            fcntl.fcntl(self.script_fd, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.script_fd, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) | os.O_ASYNC)

    def remove(self) -> None:
        """Leave the group alone. Clears the flag that `set` set, which the script's processes share."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        os.close(self._held_fd)
        os.close(self.script_fd)
