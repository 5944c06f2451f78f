"""The folders of the cgroup that limits this process's memory. Supervisor and sampler."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class MemoryFolder(NamedTuple):
    """A folder in which the kernel may keep the files of our cgroup."""

    version: int
    """1 or 2: its files have different names."""
    mount: Path
    """The folder of the outermost group."""
    path: Path


def memory_folders(root: Path = Path("/")) -> Iterator[MemoryFolder]:
    """Where the files of our group may be. In a container, the group's own folder is often mounted as the root."""
    base = root / "sys/fs/cgroup"
    for controllers, group in _memberships(root / "proc/self/cgroup"):
        if controllers == "":
            version, mounts = 2, [base, base / "unified"]
        elif "memory" in controllers.split(","):
            version, mounts = 1, [base / "memory"]
        else:
            continue
        for mount in mounts:
            yield MemoryFolder(version, mount, mount / group.lstrip("/"))
            yield MemoryFolder(version, mount, mount)


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
