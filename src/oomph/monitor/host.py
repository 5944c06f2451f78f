"""The load of the machine: CPU, memory and swap, read from /proc once a second."""

from __future__ import annotations

import os
from pathlib import Path

from oomph.process.available_memory import MemoryLimit

_SWAP_SECONDS = 10.0
_MOST = 8192
"""The most bytes to read of a file: enough for the lines that matter; the rest of /proc/stat has one per core and
interrupt."""
_IDLE, _IOWAIT, _GUEST = 3, 4, 8


class Host:
    """The machine, or the part of it that this process's cgroup may use.

    Args:
        root: "/", but for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._stat, self._meminfo = _opened(root / "proc/stat"), _opened(root / "proc/meminfo")
        self._cpu = (0, 0)
        self._total = _amount(_read(self._meminfo), b"MemTotal")
        self._limit = MemoryLimit(self._total or 0, root)
        self._swap_due = float("-inf")

    def read(self, now: float) -> dict[str, float]:
        """The values of the scope "host" that are due; `now` is a monotonic time in seconds."""
        memory = _read(self._meminfo)
        values = {**self._busy(), **self._in_use(memory, now)}
        if now >= self._swap_due:
            self._swap_due = now + _SWAP_SECONDS
            total, free = _amount(memory, b"SwapTotal"), _amount(memory, b"SwapFree")
            if total is not None and free is not None:
                values["swap_used_bytes"] = total - free
        return values

    def _busy(self) -> dict[str, float]:
        """The share of time, 0 to 1, that all cores together were busy since the last call."""
        words = _read(self._stat).partition(b"\n")[0].split()[1:]
        try:
            ticks = [int(word) for word in words[:_GUEST]]  # the time of guests is part of the user's
            idle, total = ticks[_IDLE] + ticks[_IOWAIT], sum(ticks)
        except (ValueError, IndexError):
            return {}
        before, self._cpu = self._cpu, (idle, total)
        elapsed = total - before[1]
        if not before[1] or elapsed <= 0:
            return {}
        return {"cpu_ratio": min(max(1 - (idle - before[0]) / elapsed, 0.0), 1.0)}

    def _in_use(self, memory: bytes, now: float) -> dict[str, float]:
        if self._limit.bytes is not None and (used := self._limit.used(now)) is not None:
            return {"memory_used_bytes": used, "memory_total_bytes": self._limit.bytes}
        available = _amount(memory, b"MemAvailable")
        if self._total is None or available is None:
            return {}
        return {"memory_used_bytes": self._total - available, "memory_total_bytes": self._total}


def _amount(meminfo: bytes, name: bytes) -> int | None:
    """The amount of that name in /proc/meminfo, in bytes."""
    words = meminfo.partition(name + b":")[2].split(None, 1)
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def _opened(path: Path) -> int | None:
    """A descriptor to read again and again: opening the file costs more than reading it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(fd: int | None) -> bytes:
    try:
        return b"" if fd is None else os.pread(fd, _MOST, 0)
    except OSError:
        return b""
