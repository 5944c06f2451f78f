"""Turns signals into values to wait for: they are noted on arrival, and handled once the current work is done."""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType
from typing import Any

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_NOTED = (*ENDING, signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)


class NotedSignals:
    """A context manager that notes signals on arrival, and restores their handlers on exit."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._wakeup_before = -1
        self.fd = -1
        """The descriptor that becomes readable when a signal arrives."""
        self._writer = -1

    def __enter__(self) -> NotedSignals:
        self.fd, self._writer = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in _NOTED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # keep the effect of nohup
                self._before[number] = signal.signal(number, _note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        os.close(self.fd)
        os.close(self._writer)

    def taken(self) -> list[signal.Signals]:
        """Return the signals that have arrived since the last call."""
        try:
            return [signal.Signals(number) for number in os.read(self.fd, 256)]
        except BlockingIOError:
            return []


def _note(number: int, frame: FrameType | None) -> None:
    """Do nothing, since the wakeup descriptor receives the signal number."""
