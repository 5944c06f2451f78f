"""Identifies a process by host, boot and start time, since PIDs are reused. Runs in the supervisor process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_UNKNOWN = "-"
_DEAD = ("Z", "X")
"""The states of a process that has exited (proc(5)). In a container whose first process reaps none, it stays."""


class ProcessIdentity(NamedTuple):
    """A process, as recorded in a file for others to read, perhaps later or on a different machine."""

    pid: int
    host: str = _UNKNOWN
    boot: str = _UNKNOWN
    """The kernel's boot ID. After a reboot, the PID belongs to a different process."""
    began: str = _UNKNOWN
    """The time at which the process started, in ticks since boot. A process that reuses the PID started later."""

    @classmethod
    def here(cls, pid: int | None = None) -> ProcessIdentity:
        """Identify a process on this machine, by default this process."""
        pid = os.getpid() if pid is None else pid
        return cls(pid, host(), boot(), _began(pid))

    @classmethod
    def from_text(cls, text: str) -> ProcessIdentity | None:
        """Parse what `to_text` returned, or return None if `text` is invalid. Older versions wrote only the PID."""
        words = text.split()
        try:
            return cls(int(words[0]), *words[1:4])
        except (IndexError, ValueError):
            return None

    def to_text(self) -> str:
        """Return the identity as one line of text."""
        return f"{self.pid} {self.host} {self.boot} {self.began}\n"

    @property
    def lives(self) -> bool:
        """True if the process is running on this machine, False for a process on a different machine."""
        return self.host != _UNKNOWN and self == ProcessIdentity.here(self.pid) and self.began != _UNKNOWN

    @property
    def elsewhere(self) -> bool:
        """True if the process is or was on a different machine."""
        return self.host not in (_UNKNOWN, host())

    def __str__(self) -> str:
        return f"process {self.pid}" + (f" on {self.host}" if self.elsewhere else "")


def host() -> str:
    """Return the name of this machine, without spaces."""
    return "".join(os.uname().nodename.split()) or _UNKNOWN


def boot() -> str:
    """Return the boot ID, or "-" if the kernel does not provide one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or _UNKNOWN
    except OSError:
        return _UNKNOWN


def _began(pid: int) -> str:
    """Return when a process started, or "-" if there is none, or it is dead and only waits for its parent to notice."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return _UNKNOWN if fields[0] in _DEAD else fields[19]
    except (OSError, IndexError):
        return _UNKNOWN
