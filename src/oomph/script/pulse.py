"""Pulse: sends heartbeats from the script process to the supervisor. Standard library only.

It writes a record to a pipe that the supervisor opened, whenever the phase changes and, within a phase, at most once
every SHORTEST_SECONDS. Between two records, a heartbeat costs only one clock read.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oomph.files.own_descriptor import OwnDescriptor
from oomph.protocol.progress import Beat, Phase, Power

SHORTEST_SECONDS = 0.05
_SHORTEST_NS = int(SHORTEST_SECONDS * 1e9)


class Pulse:
    """Writes heartbeats to the pipe. Does nothing without a pipe, in a fork, or once the supervisor has exited.

    Args:
        fd: the inherited end of the pipe, or None if there is no pipe.
        on_lost: called once if the pipe is lost.
    """

    def __init__(self, fd: int | None = None, on_lost: Callable[[], None] = lambda: None) -> None:
        self._pipe = None if fd is None else OwnDescriptor(fd)
        self._on_lost = on_lost
        self._pid = os.getpid()
        self.phase, self.powers, self._fit = Phase.OWN_CODE, Power.NONE, -1
        self._told_ns = self._seen_ns = time.monotonic_ns()
        self._longest_ns = 0
        if fd is not None:
            os.set_blocking(fd, False)
            os.register_at_fork(after_in_child=self._stop)

    def beat(self, phase: Phase, fit: int | None = None) -> None:
        """Report that the process has entered this phase, or has made progress in it."""
        if self._pipe is None:
            return
        now = time.monotonic_ns()
        self._longest_ns = max(self._longest_ns, now - self._seen_ns)
        self._seen_ns = now
        changed = phase is not self.phase or (fit is not None and fit != self._fit)
        if changed or now - self._told_ns >= _SHORTEST_NS:
            self.phase, self._fit = phase, self._fit if fit is None else fit
            self._tell(now)

    @property
    def is_heard(self) -> bool:
        """True if the pipe is still open."""
        return self._pipe is not None

    @property
    def silent_seconds(self) -> float:
        """The time, in seconds, since progress was last reported."""
        return (time.monotonic_ns() - self._seen_ns) / 1e9

    def tell_power(self, power: Power = Power.NONE, has: bool = True) -> None:
        """Report what this process is now able to do, or no longer able to do; by default, only that it is alive."""
        self.powers = self.powers | power if has else self.powers & ~power
        self._tell(self._seen_ns)

    @contextmanager
    def during(self, phase: Phase, after: Phase | None = None) -> Iterator[None]:
        """Enter a phase while the block runs; then return to the previous phase, or enter `after`."""
        before = self.phase
        self.beat(phase)
        try:
            yield
        finally:
            self.beat(before if after is None else after)

    def _tell(self, now: int) -> None:
        beat = Beat(self.phase, self.powers, self._pid, self._fit, now, self._longest_ns)
        try:
            if self._pipe is not None:
                self._pipe.write(beat.pack())
                self._told_ns, self._longest_ns = now, 0
        except BlockingIOError:
            pass  # the supervisor is stopped or slow; the next record will cover this one as well
        except OSError:
            self._pipe = None  # the reader has exited, or the script has closed the descriptor
            self._on_lost()

    def _stop(self) -> None:
        self._pipe = None


def inherited(fd: int | None, inode: int | None) -> int | None:
    """Return the descriptor if it is the one that the supervisor opened, or None if a launcher has closed it."""
    if fd is None:
        return None
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    known = stat.S_ISFIFO(found.st_mode) or stat.S_ISREG(found.st_mode)
    return fd if known and found.st_ino == inode else None
