"""Python stacks of the script's process, written by faulthandler when the supervisor asks, and at a crash.

They go to a file in memory that the supervisor has opened, so that the script's stderr is what it would have been. The
script's own use of faulthandler comes first: what it has switched on before or switches on later stays as it is.
"""

from __future__ import annotations

import faulthandler
import fcntl

from oomph.own_descriptor import OwnDescriptor

_OUT_OF_THE_WAY = 512
"""Daemons close all descriptors up to 256, or all there are. At a crash nobody can look first whose the number is."""


class Stacks:
    """Where the stacks of this process go to.

    Args:
        fd: an inherited descriptor.
        signum: the signal at which they are written.
    """

    def __init__(self, fd: int, signum: int) -> None:
        self._signum, self._at_crash = signum, False
        self._descriptor = OwnDescriptor(_moved(fd))

    def begin(self) -> None:
        """From now on the stacks of all threads are written on the signal, and on a crash."""
        fd = self._descriptor.fd
        try:
            faulthandler.register(self._signum, file=fd, all_threads=True, chain=False)
            if not faulthandler.is_enabled():
                faulthandler.enable(file=fd, all_threads=True)
                self._at_crash = True
        except (OSError, RuntimeError, ValueError):
            pass  # a Python without it: a hang is still seen, its line is not named

    def end_if_lost(self) -> None:
        """Write none any more, if the script has closed the descriptor: it may stand for a file of its own by now."""
        if self._descriptor.is_ours:
            return
        faulthandler.unregister(self._signum)
        if self._at_crash:
            self._at_crash = False
            faulthandler.disable()


def _moved(fd: int) -> int:
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    except OSError:
        return fd  # no process here has as many
