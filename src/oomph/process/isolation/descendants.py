"""Finds and kills descendants of an isolated process in other sessions, which a signal to its group does not reach.

The process adopts its children's orphans (PR_SET_CHILD_SUBREAPER, prctl(2)). While it is alive, all of them, including
daemons, are therefore its descendants.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37
_MOST_SECONDS = 3.0
_ROUND_SECONDS = 0.01


def adopt_orphans(adopts: bool = True) -> bool:
    """Make this process adopt descendants whose parent exits, or stop doing so.

    Returns True if it already did so before.
    """
    before = ctypes.c_int(0)
    library = ctypes.CDLL(None)
    library.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    library.prctl(_PR_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0)
    return bool(before.value)


def strays(pid: int) -> list[psutil.Process]:
    """Return the process's descendants outside its group, except zombies."""
    import psutil

    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    group = os.getpgid(pid)
    return [process for process in below if _is_stray(process, group)]


def kill(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL to each process, unless its PID now belongs to a different one."""
    import psutil

    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            pass  # it has exited, or belongs to another user


def end_own_strays(pid: int) -> list[int]:
    """Kill every stray of this process, and reap those that it has adopted. Does nothing in a fork of `pid`.

    Returns the PIDs of the strays that are left, since a stray may start another one as fast as it is killed.
    """
    if os.getpid() != pid:
        return []
    import psutil

    until = time.monotonic() + _MOST_SECONDS
    while _has_children() and (found := strays(pid)):
        if time.monotonic() > until:
            return [process.pid for process in found]
        kill(found)
        psutil.wait_procs(found, timeout=_ROUND_SECONDS)
    return []


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _is_stray(process: psutil.Process, group: int) -> bool:
    import psutil

    try:
        return os.getpgid(process.pid) != group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.Error):
        return False
