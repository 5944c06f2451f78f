"""Reads how much host memory there is, how much of it is available, and how many OOM kills there were.

The cgroup of a container or a cluster job may allow a process less memory than the machine has. Works in any process,
with the standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import NamedTuple

from oomph.files.opening import read_regular

_ROOT = Path("/")
_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_CACHE = {1: "total_inactive_file", 2: "inactive_file"}
_KILLS = {1: "memory.oom_control", 2: "memory.events"}
_MOST_BYTES = 1 << 20
_CACHE_SECONDS = 10.0
"""The time a value is reused, in seconds, because the kernel sums `memory.stat` over all cores on every read."""


def available_bytes(root: Path = _ROOT) -> int | None:
    """Return the memory available without swapping, within our cgroups' limits, in bytes, or None if unknown."""
    limit = MemoryLimit(inf, root)
    left = None if limit.bytes is None else max(0, limit.bytes - (limit.used(0) or 0))
    return min((amount for amount in (_meminfo(root, "MemAvailable:"), left) if amount is not None), default=None)


def limit_bytes(root: Path = _ROOT) -> int | None:
    """Return the tightest memory limit of our cgroups, in bytes, whatever is in use, or None if there is no limit."""
    return MemoryLimit(machine_bytes(root) or inf, root).bytes


def total_bytes(root: Path = _ROOT) -> int | None:
    """Return the maximum memory that a process can use, in bytes (the limit or the machine's), or None if unknown."""
    return limit_bytes(root) or machine_bytes(root)


def machine_bytes(root: Path = _ROOT) -> int | None:
    """Return the machine's memory in bytes, or None if the kernel does not report it."""
    return _meminfo(root, "MemTotal:")


def oom_kills(root: Path = _ROOT) -> int | None:
    """Return how many processes in our cgroup the kernel has killed for lack of memory, or None if unknown.

    Such a process writes nothing to stderr. Comparing this count before and after tells an OOM kill from a `kill -9`.
    """
    counts = (_field(folder.path / _KILLS[folder.version], "oom_kill") for folder in _folders(root))
    return next((count for count in counts if count is not None), None)


class MemoryLimit:
    """The tightest memory limit that applies to this process, if it is less than `total`.

    Args:
        total: the machine's memory, in bytes.
        root: "/", except in tests.
    """

    def __init__(self, total: float, root: Path = _ROOT) -> None:
        limits = [found for found in _limits(root) if found[0] < total]
        self.bytes: int | None = None
        self._version, self._folder = 2, root
        if limits:
            self.bytes, self._version, self._folder = min(limits)
        self._cache, self._cache_due = 0, float("-inf")

    def used(self, now: float) -> int | None:
        """Return the memory in use, in bytes, without what the kernel can reclaim in time, or None if unknown."""
        used = _number(self._folder / _USED[self._version])
        if used is None:
            return None
        if now >= self._cache_due:
            # If the file is missing, all memory in use counts.
            self._cache = _field(self._folder / "memory.stat", _CACHE[self._version]) or 0
            self._cache_due = now + _CACHE_SECONDS
        return max(used - self._cache, 0)


def _limits(root: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield (limit in bytes, cgroup version, folder) for our cgroup and its parents, whose limits all apply to us."""
    for version, mount, path in _folders(root):
        for folder in (path, *path.parents):
            if not folder.is_relative_to(mount):
                break
            limit = _number(folder / _LIMIT[version])
            if limit is not None:
                yield limit, version, folder


class _Folder(NamedTuple):
    """A folder in which the kernel may keep our cgroup's files."""

    version: int
    """The cgroup version, 1 or 2, which determines the names of the files."""
    mount: Path
    """The folder of the outermost cgroup."""
    path: Path


def _folders(root: Path) -> Iterator[_Folder]:
    """Yield the folders that may contain our cgroup's files. In a container, they are often mounted as the root."""
    base = root / "sys/fs/cgroup"
    for controllers, group in _memberships(root / "proc/self/cgroup"):
        if controllers == "":
            version, mounts = 2, [base, base / "unified"]
        elif "memory" in controllers.split(","):
            version, mounts = 1, [base / "memory"]
        else:
            continue
        for mount in mounts:
            yield _Folder(version, mount, mount / group.lstrip("/"))
            yield _Folder(version, mount, mount)


def _memberships(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (controllers, group) for each line such as `7:memory:/user.slice`."""
    for line in _text(path).splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:
            yield fields[1], fields[2]


def _meminfo(root: Path, name: str) -> int | None:
    amount = _field(root / "proc/meminfo", name)
    return None if amount is None else amount * 1024


def _field(path: Path, name: str) -> int | None:
    """Read the number after `name` in a file of lines such as `name 42`, or return None if it is missing."""
    for line in _text(path).splitlines():
        words = line.split()
        if words[:1] == [name]:
            return int(words[1]) if len(words) > 1 and words[1].isdecimal() else None
    return None


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # no such file, or "max"


def _text(path: Path) -> str:
    try:
        return read_regular(path, _MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""
