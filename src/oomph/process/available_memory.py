"""Reads host memory: the total, the available part, and the number of OOM kills.

The cgroup of a container or a cluster job may leave a process less than the machine has. Runs in any process; standard
library only.
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
"""The time, in seconds, that a value is reused: the kernel sums `memory.stat` over all cores for each read."""


def available_bytes(root: Path = _ROOT) -> int | None:
    """Return the bytes available without swapping within the limits of our control groups; None if unknown."""
    limit = MemoryLimit(inf, root)
    left = None if limit.bytes is None else max(0, limit.bytes - (limit.used(0) or 0))
    return min((amount for amount in (_meminfo(root, "MemAvailable:"), left) if amount is not None), default=None)


def limit_bytes(root: Path = _ROOT) -> int | None:
    """Return the tightest memory limit of our control groups, in bytes, used or not; None if there is none."""
    return MemoryLimit(machine_bytes(root) or inf, root).bytes


def total_bytes(root: Path = _ROOT) -> int | None:
    """Return the most bytes that a process can use here: the machine's memory or the limit; None if unknown."""
    return limit_bytes(root) or machine_bytes(root)


def machine_bytes(root: Path = _ROOT) -> int | None:
    """Return the memory of the machine, in bytes; None if the kernel does not report it."""
    return _meminfo(root, "MemTotal:")


def oom_kills(root: Path = _ROOT) -> int | None:
    """Return the number of processes in our cgroup that the kernel killed for lack of memory; None if unknown.

    Such a process writes nothing to stderr. Reading this before and after distinguishes that kill from a `kill -9`.
    """
    counts = (_field(folder.path / _KILLS[folder.version], "oom_kill") for folder in _folders(root))
    return next((count for count in counts if count is not None), None)


class MemoryLimit:
    """The tightest limit that applies to this process, if it is less than `total`.

    Args:
        total: the memory of the machine in bytes.
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
        """Return the bytes in use, minus what the kernel would reclaim before running out; None if unknown."""
        used = _number(self._folder / _USED[self._version])
        if used is None:
            return None
        if now >= self._cache_due:
            # Without the file, all that is in use counts.
            self._cache = _field(self._folder / "memory.stat", _CACHE[self._version]) or 0
            self._cache_due = now + _CACHE_SECONDS
        return max(used - self._cache, 0)


def _limits(root: Path) -> Iterator[tuple[int, int, Path]]:
    """Yield (limit in bytes, cgroup version, folder) of our group and its parents, each of which limits us."""
    for version, mount, path in _folders(root):
        for folder in (path, *path.parents):
            if not folder.is_relative_to(mount):
                break
            limit = _number(folder / _LIMIT[version])
            if limit is not None:
                yield limit, version, folder


class _Folder(NamedTuple):
    """A folder in which the kernel may keep the files of our cgroup."""

    version: int
    """The version of the cgroup, 1 or 2; the files of the two have different names."""
    mount: Path
    """The folder of the outermost group."""
    path: Path


def _folders(root: Path) -> Iterator[_Folder]:
    """Yield the folders that may contain our group's files. In a container, its folder is often mounted as the root."""
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
    """Read the number after a name in a file with a name and a number on each line; None if the name is missing."""
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
