"""The memory that the cgroup of this process leaves it, in a container or a cluster job."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from oomph.process.cgroup_folders import memory_folders

_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
_CACHE = {1: "total_inactive_file", 2: "inactive_file"}
_CACHE_SECONDS = 10.0
"""The kernel sums up `memory.stat` over all cores for each reader."""


class MemoryLimit:
    """The tightest limit that applies to this process, if it is less than `total`.

    Args:
        total: the memory of the machine in bytes.
        root: "/", but for tests.
    """

    def __init__(self, total: float, root: Path = Path("/")) -> None:
        limits = [found for found in _limits(root) if found[0] < total]
        self.bytes: int | None = None
        self._version, self._folder = 2, root
        if limits:
            self.bytes, self._version, self._folder = min(limits)
        self._cache, self._cache_due = 0, float("-inf")

    def used(self, now: float) -> int | None:
        """Bytes in use, less what the kernel would give back before it runs out; None if it does not say."""
        used = _number(self._folder / _USED[self._version])
        if used is None:
            return None
        if now >= self._cache_due:
            self._cache, self._cache_due = self._read_cache(), now + _CACHE_SECONDS
        return max(used - self._cache, 0)

    def _read_cache(self) -> int:
        try:
            for line in (self._folder / "memory.stat").read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == _CACHE[self._version]:
                    return int(value)
        except (OSError, ValueError):
            pass  # then all that is in use counts
        return 0


def _limits(root: Path) -> Iterator[tuple[int, int, Path]]:
    """(bytes, version, folder) of our group and those around it: each of them limits us."""
    for version, mount, path in memory_folders(root):
        for folder in (path, *path.parents):
            if not folder.is_relative_to(mount):
                break
            limit = _number(folder / _LIMIT[version])
            if limit is not None:
                yield limit, version, folder


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None  # no such file, or "max"
