"""Signals the script's process group, lends it the terminal, and reports processes that survive SIGKILL.

Runs in the supervisor process. The script runs in its own process group, which the terminal treats as a background job.
When the script reads from the terminal, the kernel stops it (SIGTTIN). The supervisor then notices, hands over the
terminal and continues the script. Lending the terminal only when it is needed has two benefits: Ctrl-C reaches the
supervisor, which can escalate if the script does not react, and in `oomph run train.py | less`, less keeps the terminal
from which it reads keys.
"""

from __future__ import annotations

import os
import signal
import termios
import time
from pathlib import Path
from typing import Any, NamedTuple

from oomph.terminal.console import Ticking, say


def send(group: int, signum: int) -> None:
    """Send a signal to every process in the group, if the group exists."""
    try:
        os.killpg(group, signum)
        if signum in (signal.SIGTERM, signal.SIGHUP):
            os.killpg(group, signal.SIGCONT)  # a stopped script could not react
    except (ProcessLookupError, PermissionError):
        pass  # the group is empty


def stop_signal(pid: int) -> int | None:
    """Return the signal that stopped the process since the last call, or None if it was not stopped."""
    try:
        info = os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG)
    except ChildProcessError:
        return None  # it has exited, so it cannot be stopped
    return None if info is None else info.si_status


def lives(group: int) -> bool:
    """True if any process in the group is not a zombie. Reads /proc, because killpg counts zombies too.

    Without /proc this is unknown, and the group counts as gone.
    """
    try:
        os.killpg(group, 0)
        return any(is_in(int(name), group) for name in os.listdir("/proc") if name.isdecimal())
    except (ProcessLookupError, PermissionError, FileNotFoundError):
        return False


def is_in(pid: int, group: int) -> bool:
    """True if the process belongs to the group and is not a zombie."""
    try:
        return os.getpgid(pid) == group and is_alive(pid)
    except ProcessLookupError:
        return False


def is_alive(pid: int) -> bool:
    """True if the process exists and is not a zombie."""
    return _living_thread(pid) is not None


def is_stopped(pid: int) -> bool:
    """True if the process is stopped, by SIGSTOP or a debugger."""
    return _status(Path(f"/proc/{pid}")).get("State", "?")[:1] in ("T", "t")


def why_it_stays(pid: int) -> str:
    """Explain why a killed process hasn't exited, as far as /proc shows the reason."""
    thread = _living_thread(pid) or Path(f"/proc/{pid}")
    status = _status(thread)
    tracer, state = status.get("TracerPid", "0"), status.get("State", "?")[:1]
    if tracer != "0":
        return f"process {tracer} is tracing it, as a debugger does"
    try:
        where = (thread / "wchan").read_text().strip("0\n")
    except OSError:
        where = ""
    waits = "it waits in the kernel for a driver or a disk, " if state == "D" else ""
    return f"{waits}state {state}" + (f", {where}" if where else "")


def _living_thread(pid: int) -> Path | None:
    """Return the /proc folder of a live thread. The first one may have exited while another waits in the kernel."""
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


_SILENT_SECONDS = 2.0


class Patience(NamedTuple):
    """The time that the script may take to exit after a signal."""

    terminate_seconds: float = 25.0
    """The time, in seconds, from SIGTERM to SIGKILL.

    Slurm and Kubernetes allow 30 s by default, and oomph itself needs part of that.
    """
    interrupt_seconds: float = 5.0
    """The time, in seconds, from the second Ctrl-C, which sends SIGTERM, to SIGKILL."""
    double_seconds: float = 15.0
    """The time, in seconds, within which a second Ctrl-C requests a stop. A later one counts as a new first Ctrl-C."""
    echo_seconds: float = 0.5
    """The time, in seconds, within which SIGTERMs count as one. Schedulers signal both a job and all its steps."""
    hang_seconds: float = 5.0
    """The time, in seconds, from the SIGTERM that ends a hang to SIGKILL."""
    unkillable_seconds: float = 60.0
    """The time, in seconds, after SIGKILL until the process counts as unkillable. Slurm waits just as long."""


class ProcessGroup:
    """One process group, led by the process that was started.

    Args:
        leader: the PID of that process, which is also the number of the group.
        patience: how long to wait after each kind of signal.
    """

    def __init__(self, leader: int, patience: Patience) -> None:
        self.leader, self._patience = leader, patience
        self._kill_at: float | None = None
        self._killed_at: float | None = None
        self._told = False
        self.unkillable = ""
        """The reason why the leader doesn't exit, set once it has survived SIGKILL for too long."""

    def send(self, signum: int) -> None:
        """Signal the whole group."""
        if signum == signal.SIGKILL and self._killed_at is None:
            self._killed_at = time.monotonic()
        send(self.leader, signum)

    def kill_by(self, at: float) -> None:
        """Send SIGKILL when `time.monotonic()` reaches `at`, unless an earlier one is already scheduled."""
        self._kill_at = at if self._kill_at is None else min(at, self._kill_at)

    def attend(self) -> None:
        """Send a SIGKILL that is due, and check if it worked. Called in every iteration of the supervisor's loop."""
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self.send(signal.SIGKILL)
        if self._killed_at is not None:
            self._look_for_death(now - self._killed_at)

    def end(self, seconds: float) -> bool:
        """Kill whatever is left of the group. Return True if all processes exited in time."""
        self.send(signal.SIGKILL)
        until = time.monotonic() + seconds
        with Ticking() as ticking:
            while lives(self.leader):
                if time.monotonic() >= until:
                    return False
                ticking.tick("waiting for the processes to exit")
                time.sleep(0.02)
        return True

    def held(self, pid: int) -> str:
        """Explain why a killed process in the group hasn't exited, or return an empty string if it has."""
        return f"process {pid}: {why_it_stays(pid)}" if is_in(pid, self.leader) else ""

    def _look_for_death(self, waited: float) -> None:
        """Report a leader that survives SIGKILL because it is waiting in the kernel, e.g. for a broken driver."""
        if waited > _SILENT_SECONDS and not self._told:
            self._told = True
            why = why_it_stays(self.leader)
            say(f"waiting for the killed script to exit: process {self.leader}, {why}")
        if waited > self._patience.unkillable_seconds:
            why = why_it_stays(self.leader)
            self.unkillable = f"process {self.leader} has not exited {waited:.0f} s after SIGKILL: {why}"


class Terminal:
    """The controlling terminal of this process, if it has one."""

    def __init__(self) -> None:
        try:
            self._fd: int | None = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
        except OSError:
            self._fd = None
        self._modes: list[Any] | None = None
        self.lent = False

    def lend(self, group: int) -> bool:
        """Make `group` the terminal's foreground process group, if this process is in the foreground."""
        if self._fd is None:
            return False
        try:
            if os.tcgetpgrp(self._fd) not in (os.getpgrp(), group):
                return False
            self._modes = termios.tcgetattr(self._fd)
            os.tcsetpgrp(self._fd, group)
        except (OSError, termios.error):
            return False
        self.lent = True
        return True

    def take_back(self, restore_modes: bool = False) -> None:
        """Take back the foreground. With `restore_modes`, also undo a killed script's changes to the terminal."""
        if self._fd is None or not self.lent:
            return
        self.lent = False
        try:
            os.tcsetpgrp(self._fd, os.getpgrp())
            if restore_modes and self._modes is not None:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._modes)
        except (OSError, termios.error):
            pass  # the terminal has gone away

    def close(self) -> None:
        """Take back the terminal if it is lent, and close it."""
        self.take_back()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def stop_self() -> None:
    """Stop this process as Ctrl-Z does, and return once the shell has continued it.

    This uses SIGTSTP, not SIGSTOP, because the kernel ignores SIGTSTP in a session without a shell, where nobody could
    continue the process.
    """
    handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, handler)
