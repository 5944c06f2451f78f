"""Reads how many processes of our cgroup the kernel has OOM-killed. Supervisor process and callers of `isolate`.

A process that the kernel kills for its memory writes nothing to stderr. Reading this counter before and after
distinguishes that kill from a `kill -9`.
"""

from __future__ import annotations

from pathlib import Path

from oomph.process.cgroup_folders import memory_folders

_NAMES = {1: "memory.oom_control", 2: "memory.events"}


def oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes of our cgroup the kernel has killed for memory; None if it does not report that."""
    for folder in memory_folders(root):
        count = _read_counter(folder.path / _NAMES[folder.version])
        if count is not None:
            return count
    return None


def _read_counter(path: Path) -> int | None:
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        pass  # no such cgroup
    return None
