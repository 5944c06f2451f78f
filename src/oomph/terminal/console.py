"""Prints oomph's messages to stderr, and a progress line that says what oomph is waiting for and for how long.

Both processes print messages. Only oomph's own process shows the progress line, on a terminal, after two seconds. No
thread updates it, because the supervisor forks: the code that waits calls `tick` while it polls.
"""

from __future__ import annotations

import fcntl
import math
import os
import stat
import time
from types import TracebackType

from oomph.terminal.message import PREFIX, message, shown_line, start_of_line
from oomph.terminal.screen import screen_of

_QUIET_SECONDS, _EVERY_SECONDS = 2.0, 0.5

_on_screen = False


class Ticking:
    """The progress line for one wait. As a context manager, it clears the line at the end."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._due = self._started + _QUIET_SECONDS

    def tick(self, what: str) -> None:
        """Show or update the line, at most twice per second. Never raises."""
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
        clear_line()


def clear_line() -> None:
    """Clear the progress line, if there is one. Called before anything else is printed."""
    global _on_screen
    if _on_screen:
        _on_screen = False
        _write("\r\x1b[K")


def _write(text: str) -> None:
    try:
        os.write(2, text.encode(errors="replace"))
    except OSError:
        pass  # nobody reads stderr


def say(text: str, at_line_start: bool = True, hang: int = 0, command: str = "") -> None:
    """Write one message to stderr. Never raises, since no message is worth losing a training run for.

    This writes directly to the descriptor, like the script's own stderr, because a buffer that cannot be flushed at
    exit would change the exit code. The arguments are those of `message`.
    """
    clear_line()
    try:
        os.write(2, message(text, screen_of(2), at_line_start, hang, command).encode(errors="replace"))
    except OSError:
        pass  # nobody reads stderr


class Voice:
    """Prints messages in between the script's own output, each on its own line."""

    def __init__(self) -> None:
        self.at_line_start = True
        """False if the script's last output to stderr did not end with a newline."""
        self.shared = SharedOutput()

    def say(self, text: str, hang: int = 0, command: str = "") -> None:
        """Write one message to stderr. Never raises."""
        at_line_start, self.at_line_start = self.at_line_start and self.shared.is_at_line_start(), True
        say(text, at_line_start, hang, command)
        self.shared.end_line()


_AT_ONCE_SECONDS = 0.1
"""The longest time, in seconds, between two messages of the same series."""


class SharedOutput:
    """The file or pipe that stdout and stderr share, if any. A terminal doesn't count, since oomph moves its cursor."""

    def __init__(self, out_fd: int = 1, error_fd: int = 2) -> None:
        self._out_fd, self._error_fd = out_fd, error_fd
        there = self._there()
        self._first = 0 if there is None else there.st_mtime_ns
        self._written: int | None = None
        """The time of oomph's last line, in nanoseconds of the kernel's clock, or None before the first line."""
        self._until = 0.0
        """The monotonic time until which a message belongs to the current series."""
        self._at_once = _AT_ONCE_SECONDS
        """The longest time between two messages of a series, which is infinite once only oomph can write here."""

    def is_at_line_start(self) -> bool:
        """True if output written now starts on a new line, False if it does not or this is unknown."""
        there = self._there()
        if there is None:
            return True
        last = _last_byte(self._error_fd, there) if stat.S_ISREG(there.st_mode) else None
        if last is not None:
            return last in (b"", b"\n")
        if self._written is None:
            return True
        if self._written == self._first:  # the kernel does not record when it was written
            return time.monotonic() < self._until
        return self._written == there.st_mtime_ns

    def end_line(self) -> None:
        """Record that a complete line was just written here."""
        there = self._there()
        if there is not None:
            self._written, self._until = there.st_mtime_ns, time.monotonic() + self._at_once

    def writers_began(self) -> None:
        """Record that the script has started and may also write here."""
        self._until, self._at_once = 0.0, _AT_ONCE_SECONDS

    def writers_ended(self) -> None:
        """Record that the script and its processes are gone. After its next line, only oomph writes here."""
        self._at_once = math.inf

    def _there(self) -> os.stat_result | None:
        """Return the file or pipe that both descriptors refer to, or None if they differ or refer to a device."""
        try:
            out, error = os.fstat(self._out_fd), os.fstat(self._error_fd)
        except OSError:
            return None
        is_kept = stat.S_ISREG(error.st_mode) or stat.S_ISFIFO(error.st_mode)
        return error if is_kept and os.path.samestat(out, error) else None


def _last_byte(fd: int, there: os.stat_result) -> bytes | None:
    """Return the byte before the position of the next write (none at the start), or None if it cannot be read."""
    try:
        appends = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
        place = there.st_size if appends else os.lseek(fd, 0, os.SEEK_CUR)
        reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY | os.O_CLOEXEC)  # the shell opened it for writing only
    except OSError:
        return None
    try:
        return os.pread(reader, 1, place - 1) if place else b""
    except OSError:
        return None
    finally:
        os.close(reader)
