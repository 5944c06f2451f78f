"""Passes the script's stderr through the supervisor at once, in full or in part, and keeps its end."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable

from oomph.files.opening import OwnFile
from oomph.process.descriptors import close_all_but, wait_until_writable
from oomph.process.kept_file import KeptFile
from oomph.terminal import ticking
from oomph.terminal.console import Voice
from oomph.terminal.message import PREFIX, from_script
from oomph.terminal.screen import screen_of

KEPT_BYTES = 1 << 20
_CHUNK = 1 << 16
_PREFIX = PREFIX.encode()
_WINDOW = struct.Struct("HHHH")


class Tail:
    """The end of a stream: in memory, and with keys redacted in a file."""

    def __init__(self, file: OwnFile | None, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._recent = bytearray()
        self._file = None if file is None else KeptFile(file, kept_bytes)

    def feed(self, data: bytes) -> None:
        """Take in the next chunk."""
        self._recent += data
        if len(self._recent) > 2 * self._kept_bytes:
            del self._recent[: -self._kept_bytes]
        if self._file is not None:
            self._file.feed(data)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    @property
    def data(self) -> bytes:
        """The last `kept_bytes` of the stream."""
        return bytes(self._recent[-self._kept_bytes :])


class Pump:
    """Copies the script's stderr to ours, inside the supervisor's only loop."""

    def __init__(
        self, target_fd: int, tail: Tail, sift: Callable[[bytes], bytes] = bytes, voice: Voice | None = None
    ) -> None:
        """`sift` returns the part of a chunk to pass on; the tail keeps the whole chunk.

        `voice` learns where a line ends.
        """
        self._target_fd: int | None = target_fd
        self._tail, self._sift, self._voice = tail, sift, voice or Voice()
        self.is_terminal = os.isatty(target_fd)
        self.source_fd, self.script_fd = _open_terminal(target_fd) if self.is_terminal else os.pipe()
        os.set_blocking(self.source_fd, False)
        self.open = True

    def started(self) -> None:
        """Close our copy of the script's end once the script has it, so that the stream can end."""
        os.close(self.script_fd)
        self._voice.shared.writers_began()

    def carry(self) -> bool:
        """Pass on one chunk; False if there is none, or the stream has ended."""
        try:
            data = os.read(self.source_fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # EIO: every process has closed the other side of the pseudo-terminal
        if not data:
            self.open = False
            return False
        self._tail.feed(data)
        self.show(self._sift(data))
        return True

    def show(self, data: bytes) -> None:
        """Write to our stderr."""
        if not data:
            return
        ticking.clear()
        voice = self._voice
        at_line_start, voice.at_line_start = voice.at_line_start, data.endswith(b"\n")
        if at_line_start and data.startswith(_PREFIX) and not voice.shared.is_at_line_start():
            self._pass_on(b"\n")  # a message from the script's process, behind what it printed to stdout
        self._pass_on(from_script(data, screen_of(2), at_line_start) if _PREFIX in data else data)
        if voice.at_line_start:
            voice.shared.end_line()

    def drain(self) -> None:
        """Pass on what is available, without waiting for processes that still hold the other end."""
        most = 4 * KEPT_BYTES // _CHUNK  # more than a pipe holds; bounded, since a process may write endlessly
        for _ in range(most):
            if not self.carry():
                break

    def follow_window(self) -> None:
        """Give the script's stderr the size of our terminal, so that progress bars fit."""
        if self.is_terminal:
            try:
                size = fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(_WINDOW.size))
                fcntl.ioctl(self.source_fd, termios.TIOCSWINSZ, size)
            except OSError:
                pass  # a terminal without a size

    def carry_in_background(self) -> None:
        """Fork a process that passes on the rest and ends with the stream.

        Processes that the script left running can still write to stderr; without a reader they would die of SIGPIPE.
        """
        if self._target_fd is None or os.fork() != 0:
            return
        try:
            signal.set_wakeup_fd(-1)
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT):
                signal.signal(signum, signal.SIG_DFL)
            close_all_but(self.source_fd, self._target_fd)
            os.set_blocking(self.source_fd, True)
            while data := os.read(self.source_fd, _CHUNK):
                self._pass_on(data)
        finally:
            os._exit(0)

    def close(self) -> None:
        """Close the stream; the tail stays readable."""
        if not self.open:  # every process that could have written to stdout has ended, as far as can be seen
            self._voice.shared.writers_ended()
        os.close(self.source_fd)
        self._tail.close()

    def _pass_on(self, data: bytes) -> None:
        view = memoryview(data)
        while view and self._target_fd is not None:
            try:
                view = view[os.write(self._target_fd, view) :]
            except BlockingIOError:
                wait_until_writable(self._target_fd, 1.0)
            except OSError:
                self._target_fd = None  # our stderr has no reader any more; the script must not suffer


def _open_terminal(target_fd: int) -> tuple[int, int]:
    """A pseudo-terminal that passes bytes unchanged: the real terminal behind it translates newlines."""
    source_fd, script_fd = os.openpty()
    attributes = termios.tcgetattr(script_fd)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(script_fd, termios.TCSANOW, attributes)
    try:
        size = fcntl.ioctl(target_fd, termios.TIOCGWINSZ, bytes(_WINDOW.size))
        fcntl.ioctl(script_fd, termios.TIOCSWINSZ, size)
    except OSError:
        pass  # a terminal without a size
    return source_fd, script_fd
