"""Reads how many processes of our cgroup the kernel has OOM-killed. Supervisor process and callers of `isolate`.

A process that the kernel kills for its memory writes nothing to stderr. Reading this counter before and after
distinguishes that kill from a `kill -9`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def oom_kills(root: Path = Path("/")) -> int | None:
    """How many processes of our cgroup the kernel has killed for memory; None if it does not report that."""
    for path in _counters(root):
        count = _read_counter(path)
        if count is not None:
            return count
    return None


def _counters(root: Path) -> Iterator[Path]:
    """Where the counter may be. In a container, the group's own folder is often mounted as the root."""
    mount = root / "sys/fs/cgroup"
    for controllers, group in _memberships(root / "proc/self/cgroup"):
        if controllers == "":  # version 2
            folders, name = [mount, mount / "unified"], "memory.events"
        elif "memory" in controllers.split(","):  # version 1
            folders, name = [mount / "memory"], "memory.oom_control"
        else:
            continue
        for folder in folders:
            yield folder / group.lstrip("/") / name
            yield folder / name


def _memberships(path: Path) -> Iterator[tuple[str, str]]:
    """(controllers, group) of each line `7:memory:/user.slice`."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(":", 2)
        if len(fields) == 3:
            yield fields[1], fields[2]


def _read_counter(path: Path) -> int | None:
    try:
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    except (OSError, ValueError):
        pass  # no such cgroup
    return None
