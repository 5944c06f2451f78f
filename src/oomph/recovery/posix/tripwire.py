"""The tripwire: the kernel itself ends the script's process group when the supervisor has been killed.

The watchdog does so as well, but may be killed with the supervisor: `pkill -9 -f oomph` finds both. Here nobody has to
be left. The supervisor alone holds the writing end of a pipe. When that end closes, the kernel signals whom the other
end names, which the script's processes have inherited (fcntl(2): F_SETOWN, F_SETSIG, O_ASYNC).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal


class Tripwire:
    """Set for one process group, until it is removed."""

    def __init__(self) -> None:
        self.script_fd, self._held_fd = os.pipe()

    def set(self, group: int) -> None:
        """From here on the group does not outlive this process."""
        with contextlib.suppress(OSError):  # a kernel that does not know this: the watchdog is there still
            fcntl.fcntl(self.script_fd, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.script_fd, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) | os.O_ASYNC)

    def remove(self) -> None:
        """Leave the group alone. The script's processes share what `set` has set, and so this undoes it for them."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        os.close(self._held_fd)
        os.close(self.script_fd)
