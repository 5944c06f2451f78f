"""The watchdog: a fork of the supervisor that ends the script's process group when the supervisor has been killed.

The kernel ends the script itself (PR_SET_PDEATHSIG), but not the workers that the script started, which would keep
holding the GPU. The watchdog waits for the end of a pipe that only the supervisor holds.
"""

from __future__ import annotations

import os
import signal

from oomph.process.descriptors import close_all_but


class Watchdog:
    """Watches over one process group until it is dismissed."""

    def __init__(self, group: int) -> None:
        """Start watching."""
        read_fd, self._write_fd = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _watch(read_fd, group)
        os.close(read_fd)

    def dismiss(self) -> None:
        """Stop watching and leave the group alone."""
        try:
            os.write(self._write_fd, b"!")
        except OSError:
            pass  # the watchdog was killed
        os.close(self._write_fd)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass


def _watch(read_fd: int, group: int) -> None:
    """Run the watchdog. Ends with os._exit, so that the supervisor's exit handlers do not run in it."""
    try:
        os.setsid()  # a signal to the supervisor's whole group must not end the watchdog
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        close_all_but(read_fd)  # pipes whose end others wait for, the lock of the run directory
        if os.read(read_fd, 1) == b"":
            os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # the group has ended by itself
    finally:
        os._exit(0)
