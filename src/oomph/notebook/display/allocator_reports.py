"""Diverts TensorFlow's reports of failed allocations from the cell to a file in the run directory.

ipykernel reads from a pipe what native code writes to stderr, and shows it in the cell. While a guarded fit runs,
another pipe is in front of that one. Its reader takes out the reports, hundreds of lines for each failed allocation,
and passes on everything else at once and in order.

The reader is a thread, so it waits while native code holds the GIL, as ipykernel's own reader does. A writer blocks
only once the pipe is full. This pipe is therefore as large as Linux allows, 16 times the usual size, and is not used if
it would be smaller than ipykernel's.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import threading
from collections.abc import Callable

from oomph.files.opening import OwnFile
from oomph.process.held_back import HeldBack
from oomph.process.stderr import KeptFile
from oomph.run.supervisor.native_reports import KEPT_BYTES

_STDERR = 2
_LARGE, _USUAL = 1 << 20, 1 << 16
"""The largest size of a pipe without privileges, and the default size, in bytes (pipe(7))."""
_CHUNK = 1 << 16
_QUIET_SECONDS = 0.2
"""The time without output after which a report counts as complete, and a partial line is passed on."""


class AllocatorReports:
    """Takes the reports out of stderr between `begin` and `end`, which may be called repeatedly. `close` is final.

    Args:
        file: the file for the reports.
        tell: called after the first report since `begin`, with its number of lines.
    """

    def __init__(self, file: OwnFile, tell: Callable[[int], None]) -> None:
        self._own_file, self._tell, self._is_told = file, tell, False
        self._lock = threading.Lock()
        self._held = HeldBack(explains=False)
        self._file: KeptFile | None = None
        self._pipe: _Pipe | None = None
        self._cell_fd: int | None = None
        """A duplicate of stderr as ipykernel set it up, to which everything but the reports goes."""

    def begin(self) -> None:
        """Put our pipe in front of ipykernel's, if stderr is a pipe."""
        with self._lock:
            self._is_told = False
            if not stat.S_ISFIFO(os.fstat(_STDERR).st_mode) or (self._pipe is not None and self._pipe.is_stderr()):
                return
            if self._pipe is None:
                self._pipe = _Pipe.open()
                if self._pipe is None:
                    return
                threading.Thread(target=self._run, args=(self._pipe,), name="oomph-stderr", daemon=True).start()
            if self._cell_fd is None:
                self._cell_fd = fcntl.fcntl(_STDERR, fcntl.F_DUPFD_CLOEXEC, _STDERR + 1)
            else:
                os.dup2(_STDERR, self._cell_fd, inheritable=False)
            os.dup2(self._pipe.writer, _STDERR)

    def end(self) -> None:
        """Give stderr back to ipykernel, and pass on everything written until then."""
        with self._lock:
            if self._pipe is None or self._cell_fd is None:
                return
            if self._pipe.is_stderr():
                os.dup2(self._cell_fd, _STDERR)
            while self._carry(self._pipe):
                pass
            lines = self._settle()
        self._report(lines)

    def close(self) -> None:
        """Give stderr back for good. The thread ends once no process started in the meantime can write to the pipe."""
        self.end()
        with self._lock:
            pipe, self._pipe = self._pipe, None
            if pipe is not None:
                os.close(pipe.writer)
            self._held.holding = False
            if self._file is not None:
                self._file.close()
                self._file = None

    def _run(self, pipe: _Pipe) -> None:
        waiting = select.poll()
        waiting.register(pipe.reader, select.POLLIN)
        try:
            while not pipe.is_over:
                pending = self._held.waits or self._held.lines
                if waiting.poll(_QUIET_SECONDS * 1000 if pending else None):
                    with self._lock:
                        self._carry(pipe)
                else:
                    with self._lock:
                        lines = self._settle()
                    self._report(lines)
        finally:
            self._release(pipe)

    def _release(self, pipe: _Pipe) -> None:
        """Close what is still open when the thread stops reading the pipe, even if it failed."""
        with self._lock:
            fd, self._cell_fd = self._cell_fd, None
            if fd is not None:
                if pipe.is_stderr():
                    os.dup2(fd, _STDERR)
                os.close(fd)
            if self._pipe is pipe:
                self._pipe = None
                os.close(pipe.writer)
            os.close(pipe.reader)

    def _carry(self, pipe: _Pipe) -> bool:
        """Pass on one chunk without its reports. Return False if there was nothing to read."""
        data = pipe.read()
        self._pass_on(*self._held.take(data))
        return bool(data)

    def _settle(self) -> int:
        """Complete the report, if there is one. Return its number of lines, or 0 if it is not in the file."""
        self._pass_on(*self._held.stop_waiting())
        lines = self._held.lines
        if lines and self._file is not None and self._file.is_written:
            self._held.drop()
            return lines
        self._pass_on(self._held.release(), b"")  # without a file, as on a full disk, the cell shows the report
        return 0

    def _pass_on(self, data: bytes, report: bytes) -> None:
        if report:
            self._file = self._file or KeptFile(self._own_file, KEPT_BYTES)
            self._file.feed(report)
        view = memoryview(data)
        while view and self._cell_fd is not None:
            view = view[os.write(self._cell_fd, view) :]

    def _report(self, lines: int) -> None:
        if lines and not self._is_told:
            self._is_told = True
            self._tell(lines)


class _Pipe:
    """A large pipe whose reader never blocks."""

    def __init__(self, reader: int, writer: int) -> None:
        self.reader, self.writer, self.is_over = reader, writer, False
        os.set_blocking(reader, False)

    @classmethod
    def open(cls) -> _Pipe | None:
        """Open a pipe, or return None if the system grants only one that is smaller than usual."""
        reader, writer = os.pipe()
        try:
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _LARGE)
        except OSError:
            pass  # this user's pipes already take up as much memory as they may
        if fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ) >= _USUAL:
            return cls(reader, writer)
        os.close(reader)
        os.close(writer)
        return None

    def is_stderr(self) -> bool:
        """True if stderr is currently this pipe."""
        try:
            return os.path.sameopenfile(self.reader, _STDERR)
        except OSError:
            return False  # the script has closed stderr

    def read(self) -> bytes:
        """Return what can be read now, at most one chunk."""
        try:
            data = os.read(self.reader, _CHUNK)
        except BlockingIOError:
            return b""
        self.is_over = not data
        return data
