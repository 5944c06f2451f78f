"""A line that says what oomph is doing and for how long, after two seconds, on a terminal. Used in oomph's process.

It has no thread: whoever waits calls `tick` while it polls, because the supervisor forks.
"""

from __future__ import annotations

import os
import time
from types import TracebackType

from oomph.terminal.message import PREFIX, start_of_line
from oomph.terminal.screen import screen_of
from oomph.terminal.shown import shown_line

_QUIET_SECONDS, _EVERY_SECONDS = 2.0, 0.5

_on_screen = False


class Ticking:
    """One wait, and the line about it; as a context manager it clears the line at the end."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._due = self._started + _QUIET_SECONDS

    def tick(self, what: str) -> None:
        """Show the line, at most twice a second; never raises."""
        global _on_screen
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + _EVERY_SECONDS
        screen = screen_of(2)
        if not screen.columns:
            return
        start = "\r" if _on_screen else start_of_line(screen, True)
        _on_screen = True
        line = shown_line(f"{PREFIX}{what}, {now - self._started:.0f} s")
        _write(f"{start}{line[: screen.columns - 1]}\x1b[K")

    def __enter__(self) -> Ticking:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        clear()


def clear() -> None:
    """Clear the ticking line, if there is one. Called before anything else is printed."""
    global _on_screen
    if _on_screen:
        _on_screen = False
        _write("\r\x1b[K")


def _write(text: str) -> None:
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:
        pass  # nobody reads stderr
