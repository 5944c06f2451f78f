"""Passes the script's stderr through the supervisor at once, in full or in part, and keeps a redacted tail of it."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Callable

from oomph.files.opening import OwnFile
from oomph.process.descriptors import close_all_but, wait_until_writable
from oomph.redaction.redaction import redacted
from oomph.terminal.console import Voice, clear_line
from oomph.terminal.message import PREFIX, from_script
from oomph.terminal.screen import screen_of

_LONGEST_LINE = 1 << 16
KEPT_BYTES = 1 << 20
_CHUNK = 1 << 16
_PREFIX = PREFIX.encode()
_WINDOW = struct.Struct("HHHH")


class _RedactedLines:
    """Redacts keys in a stream. Works line by line, because a key may be split between two chunks."""

    def __init__(self) -> None:
        self._rest = b""
        self._within_key = False

    def take(self, data: bytes, ended: bool = False) -> bytes:
        """Accept the next chunk, and return the part that can already be written."""
        self._rest += data
        end = max(self._rest.rfind(b"\n"), self._rest.rfind(b"\r")) + 1
        if ended or (not end and len(self._rest) > _LONGEST_LINE):
            end = len(self._rest)
        whole, self._rest = self._rest[:end], self._rest[end:]
        if b"PRIVATE KEY-----" not in whole and not self._within_key:
            return _redacted(whole)
        return b"".join(map(self._of_a_private_key, whole.splitlines(keepends=True)))

    def _of_a_private_key(self, line: bytes) -> bytes:
        if b"PRIVATE KEY-----" in line:
            self._within_key = b"-----BEGIN" in line
        elif self._within_key:
            return b""
        return _redacted(line)


def _redacted(data: bytes) -> bytes:
    return redacted(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


class KeptFile:
    """A file with the last `kept_bytes` of a stream. It may grow to twice that size in between."""

    def __init__(self, file: OwnFile, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._written = 0
        self._lines = _RedactedLines()
        self._fd = _create(file)

    def feed(self, data: bytes) -> None:
        """Append the next chunk, and shorten the file once it exceeds twice the size to keep."""
        self._write(self._lines.take(data))
        if self._written > 2 * self._kept_bytes:
            self._shorten()

    def close(self) -> None:
        """Close the file, leaving the last `kept_bytes` in it."""
        self._write(self._lines.take(b"", ended=True))
        if self._written > self._kept_bytes:
            self._shorten()
        self._let_go()

    @property
    def is_written(self) -> bool:
        """True if every write so far has succeeded."""
        return self._fd is not None

    def _shorten(self) -> None:
        """Keep the end of the redacted text, because cutting the raw stream could separate a secret from its name."""
        if self._fd is None:
            return
        try:
            kept = os.pread(self._fd, self._kept_bytes, self._written - self._kept_bytes)
            os.ftruncate(self._fd, 0)
            os.lseek(self._fd, 0, os.SEEK_SET)
        except OSError:
            self._let_go()
            return
        self._written = 0
        self._write(kept)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view and self._fd is not None:
                written = os.write(self._fd, view)  # a disk that is almost full may accept only part
                view = view[written:]
                self._written += written
        except OSError:  # a full disk must not end the run
            self._let_go()

    def _let_go(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _create(file: OwnFile) -> int | None:
    try:
        return file.open(os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    except OSError:
        return None


class Tail:
    """The last part of a stream, kept in memory, and in a file with keys redacted."""

    def __init__(self, file: OwnFile | None, kept_bytes: int = KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._recent = bytearray()
        self._file = None if file is None else KeptFile(file, kept_bytes)

    def feed(self, data: bytes) -> None:
        """Accept the next chunk."""
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
    """Copies the script's stderr to the supervisor's, as part of the supervisor's single loop."""

    def __init__(
        self, target_fd: int, tail: Tail, sift: Callable[[bytes], bytes] = bytes, voice: Voice | None = None
    ) -> None:
        """Prepare to copy. `sift` returns the part of each chunk to pass on, while the tail keeps the whole chunk.

        `voice` keeps track of whether the output ends with a complete line.
        """
        self._target_fd: int | None = target_fd
        self._tail, self._sift, self._voice = tail, sift, voice or Voice()
        self.is_terminal = os.isatty(target_fd)
        self.source_fd, self.script_fd = _open_terminal(target_fd) if self.is_terminal else os.pipe()
        os.set_blocking(self.source_fd, False)
        self.open = True

    def started(self) -> None:
        """Close the supervisor's copy of the script's end, now that the script has it, so that the stream can end."""
        os.close(self.script_fd)
        self._voice.shared.writers_began()

    def carry(self) -> bool:
        """Pass on one chunk. Return False if there is none, or if the stream has ended."""
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
        """Write to the supervisor's stderr."""
        if not data:
            return
        clear_line()
        voice = self._voice
        at_line_start, voice.at_line_start = voice.at_line_start, data.endswith(b"\n")
        if at_line_start and data.startswith(_PREFIX) and not voice.shared.is_at_line_start():
            self._pass_on(b"\n")  # a message from the script's process, after something it printed to stdout
        self._pass_on(from_script(data, screen_of(2), at_line_start) if _PREFIX in data else data)
        if voice.at_line_start:
            voice.shared.end_line()

    def drain(self) -> None:
        """Pass on the available output, without waiting for processes that still have the other end open."""
        most = 4 * KEPT_BYTES // _CHUNK  # more than a pipe holds, but limited, since a process may write endlessly
        for _ in range(most):
            if not self.carry():
                break

    def follow_window(self) -> None:
        """Set the size of the script's stderr to that of the supervisor's terminal, so that progress bars fit."""
        if self.is_terminal:
            try:
                size = fcntl.ioctl(2, termios.TIOCGWINSZ, bytes(_WINDOW.size))
                fcntl.ioctl(self.source_fd, termios.TIOCSWINSZ, size)
            except OSError:
                pass  # a terminal without a size

    def carry_in_background(self) -> None:
        """Fork a process that passes on the rest, and exits when the stream ends.

        Processes that the script left running may still write to stderr. Without a reader, SIGPIPE would kill them.
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
        """Close the stream. The tail can still be read."""
        if not self.open:  # as far as we can tell, every process that could have written to stdout has exited
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
                self._target_fd = None  # nobody reads our stderr any longer, but that must not affect the script


def _open_terminal(target_fd: int) -> tuple[int, int]:
    """Open a pseudo-terminal that passes bytes through unchanged, since the real terminal translates newlines."""
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
