"""Starts a child process, reads its output within time and size limits, and ends it along with its process group."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import TracebackType
from typing import IO, Any, NamedTuple

from oomph.process.descriptors import readable

KEPT_BYTES = 4 << 20
"""The number of bytes to keep from the end of a child's output."""
_CHUNK = 1 << 16
"""The maximum number of bytes to read at once, which is the capacity of a pipe."""
_LONGEST_LINE = 1 << 20
_FIRST_LOOK_SECONDS, _LONGEST_LOOK_SECONDS = 0.0005, 0.05


def returncode_of(pid: int) -> int | None:
    """Return a child's return code, as in `subprocess`, or None while it is running.

    This does not reap the child, so its PID and group number still belong to it and are safe to signal. Raises
    ChildProcessError if it was reaped elsewhere or is not a child of this process.
    """
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if info is None:
        return None
    return info.si_status if info.si_code == os.CLD_EXITED else -info.si_status


class Child:
    """A child process. As a context manager, it ends the child at the end of the block at the latest.

    Args:
        command: the program and its arguments. Raises OSError if it cannot be started.
        environ: the child's environment.
        stdin: where its stdin comes from. By default, it is empty.
        stdout: where its stdout goes. The default is a pipe, for `read`, `lines` and `listen`.
        stderr: where its stderr goes. By default, it is discarded.
        cwd: the working directory in which it starts.
        inherited: the descriptors that it inherits.
        own_session: whether to start it in its own session, out of reach of Ctrl-C in the terminal. Signals are then
            sent to its whole process group.
        grace_seconds: how long it may take to exit after SIGTERM; 0 kills it immediately.
        reap_seconds: how long to wait for it after SIGKILL. A child that waits in the kernel for a broken driver or a
            disk cannot be killed. It is left behind, and counts as killed.
    """

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        stdin: IO[bytes] | int = DEVNULL,
        stdout: IO[bytes] | int | None = PIPE,
        stderr: IO[bytes] | int | None = DEVNULL,
        cwd: str | Path | None = None,
        inherited: Sequence[int] = (),
        own_session: bool = True,
        grace_seconds: float = 0.0,
        reap_seconds: float = 10.0,
    ) -> None:
        self._grace_seconds, self._reap_seconds = grace_seconds, reap_seconds
        self._process = subprocess.Popen(
            list(command),
            env=dict(environ),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            pass_fds=tuple(inherited),
            start_new_session=own_session,
        )
        self.pid, self._has_group = self._process.pid, own_session
        self.left_behind = False
        """True if the child had not exited `reap_seconds` after SIGKILL."""
        self._output, self._line = self._process.stdout, b""
        if self._output is not None:
            os.set_blocking(self._output.fileno(), False)

    @property
    def returncode(self) -> int | None:
        """The return code as in `subprocess`, or None while the child is running."""
        if self._process.returncode is None:
            try:
                return returncode_of(self.pid)
            except (ChildProcessError, AttributeError):  # AttributeError: macOS before Python 3.13
                return self._process.poll()  # 0 if the child was reaped elsewhere
        return self._process.returncode

    @property
    def is_open(self) -> bool:
        """True until the output ends, before or after the child exits, since its own children share the output."""
        return self._output is not None and not self._output.closed

    def wait(self, seconds: float) -> bool:
        """Wait until the child has exited. Return False if that takes longer than `seconds`."""
        until, look_seconds = time.monotonic() + seconds, _FIRST_LOOK_SECONDS
        while self.returncode is None:
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(left, look_seconds))
            look_seconds = min(2 * look_seconds, _LONGEST_LOOK_SECONDS)
        return True

    def read(self, seconds: float = 0.0) -> bytes:
        """Return the output that has arrived, or wait for some. Returns no bytes if none arrives within `seconds`."""
        if self._output is None or self._output.closed or not readable([self._output.fileno()], seconds):
            return b""
        try:
            data = os.read(self._output.fileno(), _CHUNK)
        except OSError:
            return b""  # other code in this process closed the descriptor, which wasn't its to close
        if not data:
            self._output.close()
        return data

    def lines(self, seconds: float = 0.0) -> list[bytes]:
        """Return the next complete lines, or a partial one at the end of the output. Overlong lines are dropped."""
        *lines, self._line = (self._line + self.read(seconds)).split(b"\n")
        if not self.is_open and self._line:
            lines, self._line = [*lines, self._line], b""
        if len(self._line) > _LONGEST_LINE:
            self._line = b""
        return lines

    def listen(self, until: float) -> bytes:
        """Wait until the child exits or `time.monotonic()` reaches `until`, and return the last part of its output."""
        kept = bytearray()
        while self.is_open:
            kept += self.read(max(0.0, until - time.monotonic()))
            del kept[:-KEPT_BYTES]
            if time.monotonic() >= until:
                break
        self.wait(until - time.monotonic())
        return bytes(kept)

    def send(self, signum: int) -> None:
        """Signal the child or its own group, unless it was reaped, since its PID may then belong to another process."""
        if self._process.returncode is not None:
            return
        try:
            (os.killpg if self._has_group else os.kill)(self.pid, signum)
        except (ProcessLookupError, PermissionError):
            pass  # it has exited

    def end(self) -> None:
        """End the child and whatever is left of its group. Its last output can still be read."""
        if self.returncode is None and self._grace_seconds:
            self.send(signal.SIGTERM)
            self.wait(self._grace_seconds)
        self.send(signal.SIGKILL)
        if self.wait(self._reap_seconds):
            self._process.wait()
        else:
            self.left_behind, self._process.returncode = True, -signal.SIGKILL

    def close(self) -> None:
        """End the child, and discard the rest of its output."""
        self.end()
        if self._output is not None:
            self._output.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def as_stdin(document: Mapping[str, Any]) -> IO[bytes]:
    """Return a file in memory, at its start, with a document as JSON. Unlike a pipe, it never makes the writer wait."""
    file = os.fdopen(os.memfd_create("request"), "w+b")
    file.write(json.dumps(document).encode())
    file.seek(0)
    return file


class Finished(NamedTuple):
    """The output and the return code of a child."""

    output: bytes
    returncode: int
    """The return code as in `subprocess`: −n for death by signal n."""


def run(
    command: Sequence[str],
    environ: Mapping[str, str],
    seconds: float,
    stderr: int = DEVNULL,
    cwd: str | Path | None = None,
) -> Finished:
    """Run a program to completion. Raises OSError if it cannot be started, or TimeoutError if it takes too long."""
    with Child(command, environ, stderr=stderr, cwd=cwd) as child:
        output, returncode = child.listen(time.monotonic() + seconds), child.returncode
    if returncode is None:
        raise TimeoutError(errno.ETIMEDOUT, f"nothing within {seconds:g} s")
    return Finished(output, returncode)
