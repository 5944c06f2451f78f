"""The supervisor's signals: queued for its loop and forwarded to the script at once.

Pure functions of their arrival times tell whether they request a stop or announce the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_WATCHED = (*FORWARDED, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


@dataclass(frozen=True)
class Arrival:
    """One signal and when it arrived (time.monotonic)."""

    signum: int
    at: float


class Signals:
    """Installs the supervisor's signal handlers for the length of a run, then restores the old ones."""

    def __init__(self) -> None:
        self.queue: deque[Arrival] = deque()
        self.history: list[Arrival] = []
        self.forward: Callable[[int], None] | None = None
        """The function that the handler itself calls with a signal, so that nothing in the loop delays it."""
        self._old: dict[int, Any] = {}
        self.wake_fd, self._write_fd = -1, -1

    def __enter__(self) -> Signals:
        self.wake_fd, self._write_fd = os.pipe()
        os.set_blocking(self.wake_fd, False)
        os.set_blocking(self._write_fd, False)
        self._old_wakeup = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for signum in _WATCHED:
            if signal.getsignal(signum) is not signal.SIG_IGN:  # nohup, or a shell's `&`: the script ignores it too
                self._old[signum] = signal.signal(signum, self._receive)
        # Never ignored: otherwise the kernel reaps the script before its exit code is read.
        self._old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._receive)
        # Ignored: otherwise writing to the terminal while the script has it could stop us.
        self._old[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for signum, handler in self._old.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._old_wakeup)
        os.close(self.wake_fd)
        os.close(self._write_fd)

    def restore_in_child(self) -> None:
        """Restore the handlers between fork and exec: the script must not inherit the ignored SIGTTOU."""
        signal.signal(signal.SIGTTOU, self._old.get(signal.SIGTTOU, signal.SIG_DFL))

    def clear_wakeup(self) -> None:
        """Empty the pipe that woke the loop."""
        try:
            while os.read(self.wake_fd, 4096):
                pass
        except BlockingIOError:
            pass

    def take(self) -> list[Arrival]:
        """The signals since the last call, in order."""
        taken = []
        while self.queue:
            taken.append(self.queue.popleft())
        return taken

    def _receive(self, signum: int, frame: FrameType | None) -> None:
        arrival = Arrival(signum, time.monotonic())
        self.queue.append(arrival)
        if signum in FORWARDED:
            self.history.append(arrival)
        if self.forward is not None:
            self.forward(signum)


def presses_in_a_row(history: Sequence[Arrival], within: float) -> int:
    """The number of latest Ctrl-C presses, each at most `within` seconds after the previous one."""
    presses = [arrival.at for arrival in history if arrival.signum == signal.SIGINT]
    count = min(1, len(presses))
    for earlier, later in zip(reversed(presses[:-1]), reversed(presses), strict=False):
        if later - earlier > within:
            break
        count += 1
    return count


def announcements(history: Sequence[Arrival], since: float, usr1: bool) -> list[Arrival]:
    """The signals after `since` by which a scheduler or a person announces the end.

    `usr1`: whether SIGUSR1 counts: only if the script leaves it to oomph.
    """
    signums = (signal.SIGTERM, signal.SIGUSR1) if usr1 else (signal.SIGTERM,)
    return [one for one in history if one.signum in signums and one.at >= since]


def without_echoes(arrivals: Sequence[Arrival], echo: float) -> int:
    """The number of separate requests: an arrival within `echo` seconds of the previous one repeats it."""
    times = [arrival.at for arrival in arrivals]
    return sum(number == 0 or at - times[number - 1] > echo for number, at in enumerate(times))


def asked_to_end(history: Sequence[Arrival], latest: float) -> bool:
    """True if somebody requested the end: by SIGTERM, or by Ctrl-C or SIGHUP after `latest`."""
    return any(
        arrival.signum == signal.SIGTERM or (arrival.signum in (signal.SIGINT, signal.SIGHUP) and arrival.at > latest)
        for arrival in history
    )
