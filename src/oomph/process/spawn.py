"""Starts the script, and ensures that none of its processes outlives a killed supervisor.

The kernel kills the script itself (PR_SET_PDEATHSIG), but not the workers that the script started, which would keep
occupying the GPU. The watchdog kills these workers. If the watchdog is killed as well, the tripwire does.
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
    stdin: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group. Raises UsageError if it cannot be started.

    Args:
        argv: the program and its arguments.
        environ: the program's environment.
        stderr_fd: the descriptor to which its stderr goes.
        inherited: the descriptors that it inherits.
        restore_signals: called between fork and exec.
        stdout_fd: the descriptor to which its stdout goes, or None for oomph's own stdout.
        stdin: where its stdin comes from, as in `subprocess`, or None for oomph's own stdin.
    """
    parent = os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)
        restore_signals()
        die_with(parent)

    for fd in inherited:
        os.set_inheritable(fd, True)
    try:
        # close_fds=False: the script receives the descriptors that the shell passed, as in `oomph run a.py <(zcat x)`.
        # Our own are not inheritable.
        return subprocess.Popen(
            argv,
            env=dict(environ),
            stdin=stdin,
            stdout=stdout_fd,
            stderr=stderr_fd,
            preexec_fn=prepare,
            close_fds=False,
        )
    except OSError as error:
        raise UsageError(f"{argv[0]} cannot be started: {error.strerror}") from error
    finally:
        for fd in inherited:
            os.set_inheritable(fd, False)  # another worker has its own


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)  # it died before prctl, so nothing else would ever end this process


class Watchdog:
    """A fork of this process that kills a process group once this process is gone, unless it was dismissed.

    It waits for end-of-file on a pipe whose write end only the supervisor has open.
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
    """Run the watchdog. It exits with os._exit, which does not run the supervisor's exit handlers."""
    try:
        os.setsid()  # a signal to the supervisor's whole group must not end the watchdog
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(signum, signal.SIG_IGN)
        close_all_but(read_fd)  # pipes on which others wait for end-of-file, the run directory's lock
        if os.read(read_fd, 1) == b"":
            os.killpg(group, signal.SIGKILL)
    except OSError:
        pass  # the group has exited on its own
    finally:
        os._exit(0)


class Tripwire:
    """Makes the kernel kill a process group once this process is gone.

    The watchdog does the same, but may be killed along with the supervisor: `pkill -9 -f oomph` finds both. The
    tripwire does not depend on a surviving process. Only the supervisor has the write end of a pipe open. When that end
    closes, the kernel signals the owner that is set on the read end, which the script's processes have inherited
    (fcntl(2): F_SETOWN, F_SETSIG, O_ASYNC).
    """

    def __init__(self) -> None:
        self.script_fd, self._held_fd = os.pipe()

    def set(self, group: int) -> None:
        """Have the kernel kill the group when this process is gone."""
        with contextlib.suppress(OSError):  # if the kernel doesn't support this, there is still the watchdog
            fcntl.fcntl(self.script_fd, fcntl.F_SETOWN, -group)
            fcntl.fcntl(self.script_fd, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) | os.O_ASYNC)

    def remove(self) -> None:
        """Leave the group alone from now on. Clears the flag that `set` set, which the script's processes share."""
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.script_fd, fcntl.F_SETFL, fcntl.fcntl(self.script_fd, fcntl.F_GETFL) & ~os.O_ASYNC)
        os.close(self._held_fd)
        os.close(self.script_fd)
