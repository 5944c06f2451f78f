"""The signals that reach the supervisor during a run, queued for its loop and passed on to the script at once."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_WATCHED = (*FORWARDED, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


@dataclass(frozen=True)
class Arrival:
    """One signal, and when it came (time.monotonic)."""

    signum: int
    at: float


class Signals:
    """Holds the signal handlers of the supervisor while a run lasts, and gives back the old ones after it."""

    def __init__(self) -> None:
        self.queue: deque[Arrival] = deque()
        self.history: list[Arrival] = []
        self.forward: Callable[[int], None] | None = None
        """Called from the handler itself, so that nothing the loop waits for holds a signal up."""
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
        # Never ignored: the kernel would reap the script before its exit code is read.
        self._old[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, self._receive)
        # Ignored, or our writing to the terminal while the script has it could stop us.
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
        """Runs between fork and exec: what is ignored here is inherited, and must not be."""
        signal.signal(signal.SIGTTOU, self._old.get(signal.SIGTTOU, signal.SIG_DFL))

    def clear_wakeup(self) -> None:
        """Empty the pipe that woke the loop."""
        try:
            while os.read(self.wake_fd, 4096):
                pass
        except BlockingIOError:
            pass

    def take(self) -> list[Arrival]:
        """The signals that came since the last call, in their order."""
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
