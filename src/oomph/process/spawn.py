"""spawn: starts the script as a process that does not outlive the supervisor process, which calls it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence

from oomph.errors import UsageError

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
        stdout_fd: where its stdout goes; None: where ours goes.
    """
    parent = os.getpid()

    def prepare() -> None:
        os.setpgid(0, 0)
        restore_signals()
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)  # the supervisor died between fork and here

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
