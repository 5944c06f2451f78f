"""The process group of the script, as the kernel shows it: signals to it, who has stopped, whether any of it lives."""

from __future__ import annotations

import os
import signal


def send(group: int, signum: int) -> None:
    """Signal every process of the group, if there is one."""
    try:
        os.killpg(group, signum)
        if signum in (signal.SIGTERM, signal.SIGHUP):
            os.killpg(group, signal.SIGCONT)  # a stopped script could not obey
    except (ProcessLookupError, PermissionError):
        pass  # nobody left in it


def stop_signal(pid: int) -> int | None:
    """The signal that has newly stopped the process, if one has."""
    try:
        info = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
    except ChildProcessError:
        return None  # it has ended: then there are no stops to wait for
    return None if info is None else info.si_status


def lives(group: int) -> bool:
    """True while some process of the group is more than a zombie; reads /proc, since killpg counts zombies in."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    import psutil

    for process in psutil.process_iter(["status"]):
        try:
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                return True
        except ProcessLookupError:
            continue
    return False
