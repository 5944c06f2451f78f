"""Starts the script, and ensures that none of its processes outlives a killed supervisor.

The kernel ends the script itself (PR_SET_PDEATHSIG), but not the workers that the script started, which would keep
holding the GPU. The watchdog ends the workers; if it is also killed, the tripwire does.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from oomph.errors import UsageError
from oomph.process.descriptors import close_all_but

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def spawn(
    argv: Sequence[str],
    environ: Mapping[str, str],
    stderr_fd: int,
    inherited: Sequence[int],
    restore_signals: Callable[[], None],
    stdout_fd: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group; raises UsageError if it cannot be started.

    Args:
        argv: the program and its arguments.
        environ: its environment.
        stderr_fd: where its stderr goes.
        inherited: descriptors that it inherits.
        restore_signals: runs between fork and exec.
        stdout_fd: where its stdout goes; None for oomph's own.
    """
    parent = os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)
        restore_signals()
        die_with(parent)

    for fd in inherited:
        os.set_inheritable(fd, True)
    try:
        # close_fds=False: the script gets the descriptors that the shell passed, as in `oomph run a.py <(zcat x)`.
        # Ours are not inheritable.
        return subprocess.Popen(
            argv, env=dict(environ), stdout=stdout_fd, stderr=stderr_fd, preexec_fn=prepare, close_fds=False
        )
    except OSError as error:
        raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from error


def die_with(parent: int) -> None:
    """Have SIGKILL end this process when its parent ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)  # it died before prctl: nothing else would ever end this process


class Watchdog:
    """A fork of this process that ends a process group if this process is gone, unless dismissed.

    It waits for the end of a pipe that only the supervisor holds.
    """

    def __init__(self, group: int) -> None:
        """Start watching the group."""
        read_fd, self._write_fd = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _watch(read_fd, group)
        os.close(read_fd)

    def dismiss(self) -> None:
        """Stop watching, and leave the group alone."""
        try:
            os.write(self._write_fd, b"!")
        except OSError:
            pass  # the watchdog was killed
        os.close(self._write_fd)
        try:
            os.waitpid(self._pid, 0)
        except ChildProcessError:
            pass


def _watch(read_fd: int, group: int) -> None:
    """Run the watchdog. Ends with os._exit, so that it does not run the supervisor's exit handlers."""
    try:
        os.setsid()  # a signal to the supervisor's whole group must not end the watchdog
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, signal.SIG_IGN)
        close_all_but(read_fd)  # pipes whose end others wait for, the lock of the run directory
        if os.read(read_fd, 1) == b"":
            os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # the group has ended by itself
    finally:
        os._exit(0)


class Tripwire:
    """Has the kernel end a process group when this process is gone.

    The watchdog also does so, but may be killed with the supervisor: `pkill -9 -f oomph` finds both. The tripwire needs
    no surviving process. Only the supervisor holds the writing end of a pipe. When that end closes, the kernel signals
    the owner set on the other end, which the script's processes have inherited (fcntl(2): F_SETOWN, F_SETSIG, O_ASYNC).
    """

    def __init__(self) -> None:
        self.script_fd, self._held_fd = os.pipe()

    def set(self, group: int) -> None:
        """Have the kernel end the group when this process ends."""
        with contextlib.suppress(OSError):  # a kernel without this: the watchdog remains
            fcntl.fcntl(self.script_fd, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.script_fd, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) | os.O_ASYNC)

    def remove(self) -> None:
        """Leave the group alone. Clears the flag that `set` set, which the script's processes share."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        os.close(self._held_fd)
        os.close(self.script_fd)
