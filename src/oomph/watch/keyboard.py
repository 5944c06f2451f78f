"""The keyboard: single keys as they are pressed, and the terminal's modes as they were before."""

from __future__ import annotations

import os
import termios
from types import TracebackType
from typing import Any

_LOCAL_MODES = 3


class Keyboard:
    """Standard input without echo and without waiting for Enter; Ctrl-C and Ctrl-Z stay signals.

    It gives no keys if standard input is not a terminal.
    """

    def __init__(self) -> None:
        self.fd: int | None = None
        """What to wait for; None if there are no keys to wait for."""
        self._before: list[Any] | None = None

    def __enter__(self) -> Keyboard:
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.give_back()

    def take(self) -> None:
        """Change the modes of the terminal."""
        try:
            modes, before = termios.tcgetattr(0), termios.tcgetattr(0)
        except termios.error:
            return
        self._before = self._before or before
        modes[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(0, termios.TCSANOW, modes)
        self.fd = 0

    def give_back(self) -> None:
        """Restore the modes."""
        if self._before is None:
            return
        try:
            termios.tcsetattr(0, termios.TCSANOW, self._before)
        except termios.error:
            pass  # the terminal is gone
        self._before = self.fd = None

    def read(self) -> str:
        """The keys that were pressed; raises EOFError if the terminal is gone."""
        try:
            data = os.read(0, 64)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        return data.decode(errors="replace")
