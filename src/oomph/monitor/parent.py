"""The sampler's end of the pipe to its parent: one line of JSON for each change or problem, never waiting."""

from __future__ import annotations

import json
import os
import stat

from oomph.monitor.change_lines import to_lines
from oomph.monitor.changes import Changes

_MOST_BYTES = 1 << 20
"""What is kept for a parent that does not read; later lines are dropped."""


class Parent:
    """The process that started the sampler.

    Args:
        pid: its process.
        fd: the pipe to it.
    """

    def __init__(self, pid: int, fd: int) -> None:
        self._pid, self._fd = pid, fd
        self._unsaid = b""
        self._problem = ""
        self._listens = True
        if stat.S_ISFIFO(os.fstat(fd).st_mode):  # of a terminal, it would be everybody's setting
            os.set_blocking(fd, False)

    @property
    def is_gone(self) -> bool:
        """Whether it has ended, or closed the pipe."""
        return os.getppid() != self._pid or not self._listens

    def tell(self, changes: Changes) -> None:
        """Tell it what has changed in what is found."""
        for line in to_lines(changes):
            self._say(line)

    def tell_problem(self, problem: str) -> None:
        """Tell it why there are no samples, once for each change; empty: there are again."""
        if problem != self._problem:
            self._problem = problem
            self._say(json.dumps({"problem": problem}) + "\n")

    def flush(self) -> None:
        """Write what could not be written before."""
        while self._unsaid:
            try:
                self._unsaid = self._unsaid[os.write(self._fd, self._unsaid) :]
            except BlockingIOError:
                return  # the pipe is full
            except OSError:
                self._listens, self._unsaid = False, b""

    def _say(self, line: str) -> None:
        data = line.encode()
        if len(self._unsaid) + len(data) <= _MOST_BYTES:
            self._unsaid += data
        self.flush()
