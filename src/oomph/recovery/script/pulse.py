"""Pulse: how the script's process shows that it makes progress. Standard library only.

A record goes down a pipe that the supervisor has opened: at each change of phase, and while a phase lasts at most
every SHORTEST_SECONDS. What lies between two records costs a look at the clock.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oomph.own_descriptor import OwnDescriptor
from oomph.recovery.protocol.phases import Beat, Phase, Power

SHORTEST_SECONDS = 0.05
_SHORTEST_NS = int(SHORTEST_SECONDS * 1e9)


class Pulse:
    """The writing end. Without a pipe, in a fork, and when the supervisor has gone, it does nothing.

    Args:
        fd: the inherited end of the pipe; None when there is none.
        on_lost: called once when nobody can be told anything any more.
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
        """Progress: the process is in this phase now, and has just come to it or got further in it."""
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
        """Whether somebody listens."""
        return self._pipe is not None

    @property
    def silent_seconds(self) -> float:
        """How long there has been no progress."""
        return (time.monotonic_ns() - self._seen_ns) / 1e9

    def tell_power(self, power: Power = Power.NONE, has: bool = True) -> None:
        """Let the supervisor know what this process can do, or cannot do any more; or just that it is not stuck."""
        self.powers = self.powers | power if has else self.powers & ~power
        self._tell(self._seen_ns)

    @contextmanager
    def during(self, phase: Phase, after: Phase | None = None) -> Iterator[None]:
        """The phase within the block; after it the one from before, or `after`."""
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
            pass  # the supervisor is stopped, or slower than we are: the next record says it all
        except OSError:
            self._pipe = None  # nobody reads any more, or the script has closed what it found
            self._on_lost()

    def _stop(self) -> None:
        self._pipe = None


def inherited(fd: int | None, inode: int | None) -> int | None:
    """The descriptor, if it is still what the supervisor has opened: a launcher in between may have closed it."""
    if fd is None:
        return None
    try:
        found = os.fstat(fd)
    except OSError:
        return None
    known = stat.S_ISFIFO(found.st_mode) or stat.S_ISREG(found.st_mode)
    return fd if known and found.st_ino == inode else None
