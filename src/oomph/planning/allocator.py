"""Models TensorFlow's BFC allocator: which chunk a request gets, and how large that chunk is.

Source: tensorflow/core, xla/tsl/framework/bfc_allocator.cc: `RoundedBytes`, `FindChunkPtr`, `Extend`, `Merge`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field

_ROUNDING = 256
_MOST_SLACK = 128 << 20
"""A chunk that exceeds the request by at least this many bytes is always split (`kMaxInternalFragmentation`)."""
_FIRST_REGION = 2 << 20


@dataclass
class _Chunk:
    start: int
    size: int
    free: bool
    before: int | None
    after: int | None


@dataclass
class Allocator:
    """The memory chunks of one device. If `limit` is None, memory is unlimited and grows as with `allow_growth`."""

    limit: int | None = None
    in_use: int = 0
    """The total size, in bytes, of the chunks in use, as reported by `get_memory_info`."""
    peak: int = 0
    reserved: int = 0
    _chunks: dict[int, _Chunk] = field(default_factory=dict)
    _free: list[tuple[int, int]] = field(default_factory=list)
    _region: int = _FIRST_REGION
    _next_start: int = 0

    def allocate(self, size: int) -> int | None:
        """Allocate at least `size` bytes and return a handle, or None if no chunk fits and the limit is reached."""
        wanted = max(_ROUNDING, -(-size // _ROUNDING) * _ROUNDING)
        found = self._best(wanted)
        if found is None:
            if not self._extend(wanted):
                return None
            found = self._best(wanted)
            if found is None:
                return None
        chunk = self._chunks[found]
        if chunk.size >= 2 * wanted or chunk.size - wanted >= _MOST_SLACK:
            self._split(chunk, wanted)
        chunk.free = False
        self.in_use += chunk.size
        self.peak = max(self.peak, self.in_use)
        return found

    def release(self, handle: int) -> None:
        """Free a chunk and merge it with free neighbours."""
        chunk = self._chunks[handle]
        self.in_use -= chunk.size
        chunk.free = True
        for neighbour in (chunk.before, chunk.after):
            if neighbour is not None and self._chunks[neighbour].free:
                self._forget(self._chunks[neighbour])
                self._join(min(chunk.start, neighbour), max(chunk.start, neighbour))
                chunk = self._chunks[min(chunk.start, neighbour)]
        insort(self._free, (chunk.size, chunk.start))

    def _best(self, wanted: int) -> int | None:
        at = bisect_left(self._free, (wanted, -1))
        return self._free.pop(at)[1] if at < len(self._free) else None

    def _extend(self, wanted: int) -> bool:
        room = None if self.limit is None else self.limit - self.reserved
        if room is not None and room < wanted:
            return False
        doubled = False
        while self._region < wanted:
            self._region, doubled = self._region * 2, True
        size = self._region if room is None else min(self._region, room)
        if not doubled:
            self._region *= 2
        start, self._next_start = self._next_start, self._next_start + size + 1  # regions are never adjacent
        self._chunks[start] = _Chunk(start, size, True, None, None)
        insort(self._free, (size, start))
        self.reserved += size
        return True

    def _split(self, chunk: _Chunk, wanted: int) -> None:
        rest = _Chunk(chunk.start + wanted, chunk.size - wanted, True, chunk.start, chunk.after)
        if chunk.after is not None:
            self._chunks[chunk.after].before = rest.start
        self._chunks[rest.start] = rest
        chunk.size, chunk.after = wanted, rest.start
        insort(self._free, (rest.size, rest.start))

    def _join(self, first: int, second: int) -> None:
        left, right = self._chunks[first], self._chunks.pop(second)
        left.size, left.after, left.free = left.size + right.size, right.after, True
        if right.after is not None:
            self._chunks[right.after].before = first

    def _forget(self, chunk: _Chunk) -> None:
        del self._free[bisect_left(self._free, (chunk.size, chunk.start))]


def chunks_of(sizes: Iterable[int]) -> int:
    """Return the total size, in bytes, of the chunks for tensors of these sizes. A chunk may exceed its request."""
    allocator = Allocator()
    for size in sizes:
        allocator.allocate(size)
    return allocator.in_use
