"""How much host memory there is, and how much of it may still be taken. In any process; standard library only."""

from __future__ import annotations

from math import inf
from pathlib import Path

from oomph.process.memory_limit import MemoryLimit


def available_bytes(root: Path = Path("/")) -> int | None:
    """The bytes available without swapping within the limits of our control groups; None if unknown."""
    limit = MemoryLimit(inf, root)
    left = None if limit.bytes is None else max(0, limit.bytes - (limit.used(0) or 0))
    return min((amount for amount in (_meminfo(root, "MemAvailable:"), left) if amount is not None), default=None)


def limit_bytes(root: Path = Path("/")) -> int | None:
    """The tightest limit of our control groups in bytes, whatever is used of it; None without one."""
    return MemoryLimit(_meminfo(root, "MemTotal:") or inf, root).bytes


def total_bytes(root: Path = Path("/")) -> int | None:
    """The memory that a process here can have at most: that of the machine, or the limit; None if unknown."""
    return limit_bytes(root) or _meminfo(root, "MemTotal:")


def _meminfo(root: Path, name: str) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # this kernel does not report it
    return None
