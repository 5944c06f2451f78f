"""What an isolated process has started in sessions of their own, where a signal to its group does not reach.

The process adopts what its children leave behind (PR_SET_CHILD_SUBREAPER, prctl(2)), so that for as long as it lives
all of it is below it, daemons too.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

_PR_SET_CHILD_SUBREAPER = 36
_MOST_ROUNDS = 20
_ROUND_SECONDS = 0.01


def adopt_orphans() -> None:
    """From now on, descendants whose parent ends become children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def strays(pid: int) -> list[psutil.Process]:
    """The descendants of the process that are not in its group, more than zombies."""
    import psutil

    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []
    group = os.getpgid(pid)
    return [process for process in below if _is_stray(process, group)]


def kill(processes: Iterable[psutil.Process]) -> None:
    """SIGKILL to each of them that still is the process that was seen, and not another one with its number."""
    import psutil

    for process in processes:
        try:
            process.kill()
        except psutil.Error:
            pass  # it has ended, or is somebody else's


def end_own_strays(pid: int) -> None:
    """End every stray of this process, if it is `pid` and no fork of it; for its very end."""
    if os.getpid() != pid:
        return
    for _ in range(_MOST_ROUNDS):  # one may have started another meanwhile
        if not _has_children() or not (found := strays(pid)):
            return
        kill(found)
        time.sleep(_ROUND_SECONDS)


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
