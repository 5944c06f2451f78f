"""The controlling terminal, which the supervisor process lends to the script's process group when the script reads.

The script runs in its own process group, which the terminal treats as a background job. When it reads, the kernel
stops it (SIGTTIN); the supervisor notices, hands over the terminal and continues it.
Lending late has two benefits: Ctrl-C reaches the supervisor, which can escalate if the script does not react; and in
`oomph run train.py | less`, less keeps the terminal that it reads its keys from.
"""

from __future__ import annotations

import os
import signal
import termios
from typing import Any


class Terminal:
    """The controlling terminal of this process, if it has one."""

    def __init__(self) -> None:
        try:
            self._fd: int | None = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._fd = None
        self._modes: list[Any] | None = None
        self.lent = False

    def lend(self, group: int) -> bool:
        """Make `group` the foreground of the terminal, if we hold the foreground."""
        if self._fd is None:
            return False
        try:
            if os.tcgetpgrp(self._fd) not in (os.getpgrp(), group):
                return False
            self._modes = termios.tcgetattr(self._fd)
            os.tcsetpgrp(self._fd, group)
        except (OSError, termios.error):
            return False
        self.lent = True
        return True

    def take_back(self, restore_modes: bool = False) -> None:
        """Take back the foreground; with `restore_modes`, also undo what a killed script did to the terminal."""
        if self._fd is None or not self.lent:
            return
        self.lent = False
        try:
            os.tcsetpgrp(self._fd, os.getpgrp())
            if restore_modes and self._modes is not None:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._modes)
        except (OSError, termios.error):
            pass  # the terminal has gone away

    def close(self) -> None:
        """Give up the terminal."""
        self.take_back()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def stop_self() -> None:
    """Stop this process as Ctrl-Z does, and return when the shell has continued it.

    Uses SIGTSTP, not SIGSTOP: the kernel ignores it in a session without a shell, where nobody could continue us.
    """
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
