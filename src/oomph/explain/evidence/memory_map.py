"""The memory dump of TensorFlow's allocator when it runs out: how much was free, and in what pieces.

Source of the lines: xla/tsl/framework/bfc_allocator.cc (DumpMemoryLog) and allocator.cc (AllocatorStats::DebugString);
up to 2.x they give plain bytes, later 1.25GiB. LargestFreeBlock is printed as 0B whatever is free, so the largest free
block is taken from the chunk lines.
"""

from __future__ import annotations

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.sizes import read_size, write_size
from oomph.files.patterns import lazy_pattern

WORDS = frozenset({"Free", "Limit", "InUse", "MaxInUse", "allocate", "limit"})
SOURCE = "memory-map"

_REQUEST = lazy_pattern(
    r"trying to allocate (?P<size>\d{1,18}(?:\.\d{1,18})?\w{0,8})(?: \(rounded to (?P<bytes>\d{1,18})\))?"
)
_ON_CPU = lazy_pattern(r"Allocator \((?:mkl|bfc_)?cpu\w{0,40}\)")
_FREE = lazy_pattern(r"\bFree\s{1,20}at (?:0x)?[0-9a-f]{1,16} of size (?P<bytes>\d{1,18})")
_CHUNK = lazy_pattern(rb"(?:InUse|Free|Chunk) {1,20}at (?:0x)?[0-9a-f]{1,16} of size \d{1,18}(?: next \d{1,20})?")
_FREE_CHUNK = lazy_pattern(rb"Free {1,20}at (?:0x)?[0-9a-f]{1,16} of size (\d{1,18})")
_SUM = lazy_pattern(r"Free chunks: (?P<bytes>\d{1,24}) bytes, the largest of (?P<largest>\d{1,24})")
_REQUESTED, _NO_FAILURE = b"trying to allocate", b"not a failure"
_STAT = lazy_pattern(r"(?:^|\] ?|\s)(?P<name>Limit|InUse|MaxInUse):\s{1,40}(?P<size>-?[\d.]{1,24}\w{0,8})\s{0,20}\Z")
_POOL = lazy_pattern(r"memory_limit_: (?P<size>[\d.]{1,24}\w{0,8})")
_NAMES = {"Limit": "limit", "InUse": "in_use", "MaxInUse": "peak"}


def condense(block: bytes) -> bytes:
    """The lines of a block without the chunks of dumps, but with the last dump's free memory and largest chunk."""
    if b" of size " not in block:
        return block
    last = _last_request(block)
    before, dump = _CHUNK.sub(b"", block[:last]), block[last:]
    first = _FREE_CHUNK.search(dump)
    if first is None:
        return before + _CHUNK.sub(b"", dump)
    sizes = [int(size) for size in _FREE_CHUNK.findall(dump)]
    total = b"Free chunks: %d bytes, the largest of %d" % (sum(sizes), max(sizes))
    return before + _CHUNK.sub(b"", dump[: first.start()]) + total + _CHUNK.sub(b"", dump[first.start() :])


def _last_request(block: bytes) -> int:
    """The offset of the last request in `block` that has a dump; 0 if the dump belongs to a request of an earlier
    block."""
    block, end = block.replace(b"\r", b"\n"), len(block)
    while (place := block.rfind(_REQUESTED, 0, end)) >= 0:
        start = block.rfind(b"\n", 0, place) + 1
        if _NO_FAILURE not in block[start:end].partition(b"\n")[0]:
            return place
        end = start  # each line is looked at once, however often it holds the words
    return 0


class MemoryMap:
    """Reads a log in order and remembers the last dump; constant memory."""

    def __init__(self) -> None:
        self.requested = self.free = self.largest = 0
        self.found: dict[str, int] = {}
        self.line: int | None = None
        self.origin = ""
        self._on_cpu = False

    def see(self, fact: Evidence) -> None:
        """Take the next line into account."""
        text = fact.text
        if "trying to allocate" in text and "not a failure" not in text:
            self._begin(fact)
        elif "Free" in text and (chunk := _FREE.search(text)):
            self.free += int(chunk["bytes"])
            self.largest = max(self.largest, int(chunk["bytes"]))
        elif "Free" in text and (chunks := _SUM.search(text)):
            self.free += int(chunks["bytes"])
            self.largest = max(self.largest, int(chunks["largest"]))
        elif "memory_limit_" in text and (pool := _POOL.search(text)):
            self._keep("limit", pool["size"])
        elif ("Limit:" in text or "InUse:" in text) and (stat := _STAT.search(text[-80:])):
            self._keep(_NAMES[stat["name"]], stat["size"])

    def captured(self) -> dict[str, str]:
        """The figures of the dump, as text: limit, in use, peak, free, largest free block."""
        is_dump = self.requested and (self.free or self.found)  # a request alone says nothing of what was free
        return {name: write_size(size) for name, size in (self.found | (self._free() if is_dump else {})).items()}

    def _free(self) -> dict[str, int]:
        """The free memory and its largest piece, in bytes; for a dump without chunks, the limit minus the use."""
        if self.free:
            return {"free": self.free, "largest_free": self.largest}
        limit, used = self.found.get("limit"), self.found.get("in_use")
        return {} if limit is None or used is None else {"free": max(limit - used, 0)}

    def conclusion(self) -> Evidence | None:
        """Fragmentation as a fact: enough free memory on a GPU, but in pieces too small; None otherwise.

        CUDA's own allocator solves it. On the CPU, it is like any other lack of memory.
        """
        if self._on_cpu or not 0 < self.requested <= self.free or self.largest >= self.requested:
            return None
        text = (
            f"free blocks of {write_size(self.free)} in all, the largest of {write_size(self.largest)}, "
            f"and {write_size(self.requested)} were asked for"
        )
        return Evidence(SOURCE, text, self.line, self.origin)

    def _begin(self, fact: Evidence) -> None:
        asked = _REQUEST.search(fact.text)
        size = None if asked is None else int(asked["bytes"]) if asked["bytes"] else read_size(asked["size"])
        if size:
            self.requested, self.free, self.largest = size, 0, 0
            self.line, self.origin = fact.line, fact.origin
            self._on_cpu = _ON_CPU.search(fact.text) is not None

    def _keep(self, name: str, printed: str) -> None:
        size = read_size(printed)
        if size:
            self.found[name] = size
