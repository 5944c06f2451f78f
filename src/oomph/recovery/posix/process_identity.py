"""Where a process lives: host, boot and start time, without which its number may be that of another one."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_UNKNOWN = "-"


@dataclass(frozen=True)
class ProcessIdentity:
    """A process that holds something, as written into a file that others read: maybe on another machine, or later."""

    pid: int
    host: str = _UNKNOWN
    boot: str = _UNKNOWN
    """The kernel's name for this boot: after another one the number belongs to somebody else."""
    began: str = _UNKNOWN
    """When the process began, in ticks since the boot: another one with the same number began later."""

    @classmethod
    def here(cls, pid: int | None = None) -> ProcessIdentity:
        """Of a process of this machine; of this one, if none is named."""
        pid = os.getpid() if pid is None else pid
        return cls(pid, host(), boot(), _began(pid))

    @classmethod
    def from_text(cls, text: str) -> ProcessIdentity | None:
        """What `to_text` wrote; None when it is nothing of the kind. Older ones hold the number alone."""
        words = text.split()
        try:
            return cls(int(words[0]), *words[1:4])
        except (IndexError, ValueError):
            return None

    def to_text(self) -> str:
        """One line."""
        return f"{self.pid} {self.host} {self.boot} {self.began}\n"

    @property
    def lives(self) -> bool:
        """Whether it is a process of this machine that runs now. One of another machine is not known to."""
        return self.host != _UNKNOWN and self == ProcessIdentity.here(self.pid) and self.began != _UNKNOWN

    @property
    def elsewhere(self) -> bool:
        """Whether it is, or was, on another machine."""
        return self.host not in (_UNKNOWN, host())

    def __str__(self) -> str:
        return f"process {self.pid}" + (f" on {self.host}" if self.elsewhere else "")


def host() -> str:
    """The name of this machine, without spaces."""
    return "".join(platform.node().split()) or _UNKNOWN


def boot() -> str:
    """The identity of this boot; "-" where the kernel has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() or _UNKNOWN
    except OSError:
        return _UNKNOWN


def _began(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return _UNKNOWN
