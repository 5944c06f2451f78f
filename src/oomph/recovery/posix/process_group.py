"""The process group of the script, as the kernel shows it: signals to it, who has stopped, whether any of it lives."""

from __future__ import annotations

import os
import signal
from pathlib import Path


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
    """True while some process of the group is more than a zombie; reads /proc, since killpg counts zombies in.

    Without a /proc nobody can tell, and what was killed is taken to have ended.
    """
    try:
        os.killpg(group, 0)
        return any(is_in(int(name), group) for name in os.listdir("/proc") if name.isdecimal())
    except (ProcessLookupError, PermissionError, FileNotFoundError):
        return False


def is_in(pid: int, group: int) -> bool:
    """Whether the process is one of the group, and more than a zombie."""
    try:
        return os.getpgid(pid) == group and is_alive(pid)
    except ProcessLookupError:
        return False


def is_alive(pid: int) -> bool:
    """Whether there is such a process, and it is more than a zombie."""
    return _living_thread(pid) is not None


def why_it_stays(pid: int) -> str:
    """What keeps a process that was killed from ending, in words, as far as /proc tells."""
    thread = _living_thread(pid) or Path(f"/proc/{pid}")
    status = _status(thread)
    tracer, state = status.get("TracerPid", "0"), status.get("State", "?")[:1]
    if tracer != "0":
        return f"process {tracer} traces it, as a debugger does"
    try:
        where = (thread / "wchan").read_text().strip("0\n")
    except OSError:
        where = ""
    waits = "it waits in the kernel for a driver or a disk, " if state == "D" else ""
    return f"{waits}state {state}" + (f", {where}" if where else "")


def _living_thread(pid: int) -> Path | None:
    """In /proc, a thread that has not ended; the first one may have while another still waits in the kernel."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return None
    return next((thread for thread in threads if _status(thread).get("State", "Z")[:1] not in "ZX"), None)


def _status(process: Path) -> dict[str, str]:
    try:
        lines = (process / "status").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition(":") for line in lines)
    return {name: value.strip() for name, _, value in pairs}
