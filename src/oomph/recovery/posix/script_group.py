"""The script's process group in the supervisor's hand: signals, a time for SIGKILL, and what SIGKILL does not end."""

from __future__ import annotations

import signal
import time

from oomph.console import say
from oomph.recovery.posix import process_group
from oomph.recovery.posix.patience import Patience

_SILENT_SECONDS = 2.0


class ScriptGroup:
    """One process group, led by the process that was started.

    Args:
        leader: its number, which is that of the group too.
        patience: how long to wait for what.
    """

    def __init__(self, leader: int, patience: Patience) -> None:
        self._leader, self._patience = leader, patience
        self._kill_at: float | None = None
        self._killed_at: float | None = None
        self._told = False
        self.unkillable = ""
        """What keeps the leader, once it has not ended for too long in spite of SIGKILL."""

    def send(self, signum: int) -> None:
        """Signal all of it."""
        if signum == signal.SIGKILL and self._killed_at is None:
            self._killed_at = time.monotonic()
        process_group.send(self._leader, signum)

    def kill_by(self, at: float) -> None:
        """Send SIGKILL at this time of the monotonic clock, if not earlier."""
        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)

    def attend(self) -> None:
        """Called in every turn of the supervisor's loop while the leader lives."""
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self.send(signal.SIGKILL)
        if self._killed_at is not None:
            self._look_for_death(now - self._killed_at)

    def end(self, seconds: float) -> bool:
        """Kill what is left of it; True when all of it has ended in time."""
        self.send(signal.SIGKILL)
        until = time.monotonic() + seconds
        while process_group.lives(self._leader):
            if time.monotonic() >= until:
                return False
            time.sleep(0.02)
        return True

    def held(self, pid: int) -> str:
        """What keeps a process of the group that was killed; empty when it has ended."""
        return f"process {pid}: {process_group.why_it_stays(pid)}" if process_group.is_in(pid, self._leader) else ""

    def _look_for_death(self, waited: float) -> None:
        """SIGKILL does not end a process that waits in the kernel, for a broken driver say: not before that answers."""
        if waited > _SILENT_SECONDS and not self._told:
            self._told = True
            why = process_group.why_it_stays(self._leader)
            say(f"waiting for the killed script to end: process {self._leader}, {why}")
        if waited > self._patience.unkillable_seconds:
            why = process_group.why_it_stays(self._leader)
            self.unkillable = f"process {self._leader} has not ended {waited:.0f} s after SIGKILL: {why}"
