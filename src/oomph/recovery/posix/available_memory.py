"""How much host memory this process may still take. Runs in the script process; standard library only."""

from __future__ import annotations

from pathlib import Path

_LIMITS = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Of the cgroup that a container sees as its root; version 2, then version 1."""


def available_bytes(root: Path = Path("/")) -> int | None:
    """The bytes available without swapping within the container's limit; None if unknown."""
    known = [_available(root), *(_left(root / limit, root / used) for limit, used in _LIMITS)]
    return min((amount for amount in known if amount is not None), default=None)


def limit_bytes(root: Path = Path("/")) -> int | None:
    """The container's limit in bytes, whatever is used of it; None without one."""
    known = [_number(root / limit) for limit, _ in _LIMITS]
    return min((amount for amount in known if amount is not None), default=None)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None  # "max": no limit


def _available(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass  # this kernel does not report it
    return None


def _left(limit: Path, used: Path) -> int | None:
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):
        return None  # "max": no limit
