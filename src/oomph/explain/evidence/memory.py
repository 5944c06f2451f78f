"""Reads memory facts in a log: sizes, the limit of the CPU's pool, allocator dumps, and readings that only grow. Pure.

Sources for the lines of a dump: xla/tsl/framework/bfc_allocator.cc (DumpMemoryLog) and allocator.cc
(AllocatorStats::DebugString). Up to 2.x, they print plain bytes; later versions print sizes such as 1.25GiB.
LargestFreeBlock is always printed as 0B, so the largest free block is taken from the chunk lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oomph.explain.evidence.evidence import Evidence
from oomph.files.patterns import lazy_pattern

_SIZE = lazy_pattern(r"(?P<number>\d{1,18}(?:\.\d{1,18})?)\s{0,8}(?P<unit>[KMGTP]?)i?(?:B|bytes?)?\Z", re.IGNORECASE)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024


def read_size(text: str) -> int | None:
    """Parse a size such as "1.02GiB", "2147483648", "1.97G" or "800 MiB" into bytes. Return None for anything else."""
    found = _SIZE.match(text.strip())
    if found is None:
        return None
    power = "BKMGTP".index(found["unit"].upper() or "B")
    return int(float(found["number"]) * _STEP**power)


def write_size(amount: int) -> str:
    """Format an amount the way TensorFlow prints it: 1181116006 becomes "1.10GiB"."""
    value, unit = float(amount), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{amount}B" if unit == 0 else f"{value:.2f}{_UNITS[unit]}"


_SWITCH, _LIMIT = "TF_CPU_ALLOCATOR_USE_BFC", "TF_CPU_BFC_MEM_LIMIT_IN_MB"
_LONGEST = 20


def limit_in_words(environ: Mapping[str, Any]) -> str:
    """Format the pool's limit as it would be set in a shell; empty if the pool has no limit."""
    switch, limit = environ.get(_SWITCH), environ.get(_LIMIT)
    if switch not in ("1", "true", "True") or type(limit) is not str or not limit[:_LONGEST].isdigit():
        return ""
    return f"{_LIMIT}={limit[:_LONGEST]}"


MAP_WORDS = frozenset({"Free", "Limit", "InUse", "MaxInUse", "allocate", "limit"})
MAP_SOURCE = "memory-map"

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
    """Remove the chunks of dumps from a block of lines, adding the last dump's free memory and largest free chunk."""
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
    """Return the offset of the last request in `block` with a dump, or 0 if the dump belongs to an earlier block."""
    block, end = block.replace(b"\r", b"\n"), len(block)
    while (place := block.rfind(_REQUESTED, 0, end)) >= 0:
        start = block.rfind(b"\n", 0, place) + 1
        if _NO_FAILURE not in block[start:end].partition(b"\n")[0]:
            return place
        end = start  # examine each line once, however often the words occur in it
    return 0


class MemoryMap:
    """Reads a log in order and keeps the last dump, using constant memory."""

    def __init__(self) -> None:
        self.requested = self.free = self.largest = 0
        self.found: dict[str, int] = {}
        self.line: int | None = None
        self.origin = ""
        self._on_cpu = False

    def see(self, fact: Evidence) -> None:
        """Process the next line."""
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
        """Return the dump's statistics as text: limit, memory in use, peak, free memory, largest free block."""
        is_dump = self.requested and (self.free or self.found)  # a request alone does not show what was free
        return {name: write_size(size) for name, size in (self.found | (self._free() if is_dump else {})).items()}

    def _free(self) -> dict[str, int]:
        """Return the free memory and its largest piece, in bytes, or limit minus use if the dump has no chunks."""
        if self.free:
            return {"free": self.free, "largest_free": self.largest}
        limit, used = self.found.get("limit"), self.found.get("in_use")
        return {} if limit is None or used is None else {"free": max(limit - used, 0)}

    def conclusion(self) -> Evidence | None:
        """Return a fact if GPU memory is fragmented (enough was free, but only in pieces that are too small), or None.

        CUDA's own allocator solves this. On the CPU, fragmentation is treated like any other memory shortage.
        """
        if self._on_cpu or not 0 < self.requested <= self.free or self.largest >= self.requested:
            return None
        text = (
            f"free blocks of {write_size(self.free)} in total, the largest of {write_size(self.largest)}, but "
            f"{write_size(self.requested)} was requested"
        )
        return Evidence(MAP_SOURCE, text, self.line, self.origin)

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


TREND_SOURCE = "trend"
TREND_WORDS = frozenset({"memory", "Memory", "RAM", "RSS", "rss", "mem", "Mem"})

_FIGURE = lazy_pattern(
    r"(?P<name>(?<![A-Za-z])(?i:memory|RAM|RSS|mem|mem_usage|memory_usage|mem_used|memory_used)\b[^\n\d]{0,40}"
    r"(?:(?<=[a-zA-Z])\d:? [^\n\d]{0,20}|(?<=:)\d:[^\n\d]{0,20})?|(?<=')(?i:current)': )"
    r"(?P<size>\d+(?:\.\d+)? ?(?i:[KMGT]i?B?|bytes)\b|\d+\.\d+\b(?! ?%)|\d{7,15}\b(?! ?%))"
)
_NO_USE = ("trying to allocate", "available", "free", "total", "limit")
"""Words that mark values other than memory in use, such as requests, free memory and totals."""
_FEWEST = 6
_GROWTH = 1.25
_GROWTH_OF_MANY = {7: 1.15, 9: 1.05}
"""The growth factor that suffices after a given number of rises, if the readings hardly ever fell."""
_HARDLY = 0.995
"""A reading counts as lower if it is below this share of the previous one."""
_CALM = 0.4
"""The largest share of readings that may fail to exceed the previous one in a series that still counts as growing."""
_DIP = 0.98
"""A reading below this share of the last one is a fall; smaller dips are normal."""
_MOST_SERIES = 16


class _Series:
    """The readings printed under the same name."""

    def __init__(self, start: float, unit: bool) -> None:
        self.start = start
        self.end = 0.0
        self.readings = self.rises = 0
        self.since_rise = 0
        """The number of readings since the last rise."""
        self.ever_lower = False
        """True if a reading was below the share `_HARDLY` of the previous one."""
        self.fell = False
        """True if a reading fell below the share `_DIP` of the previous one."""
        self.last: Evidence | None = None
        self.unit = unit

    def take(self, size: float, fact: Evidence) -> None:
        """Process the next reading."""
        self.rises += size > self.end > 0
        self.since_rise = 0 if size > self.end else self.since_rise + 1
        self.ever_lower |= size < _HARDLY * self.end
        self.fell |= size < _DIP * self.end
        self.readings, self.end, self.last = self.readings + 1, size, fact

    @property
    def grows(self) -> bool:
        """True if there are enough readings, and they only grew."""
        steady = self.rises >= (1 - _CALM) * (self.readings - 1)
        enough = [_GROWTH]
        if not self.ever_lower:
            enough += [growth for rises, growth in _GROWTH_OF_MANY.items() if self.rises >= rises]
        is_over = self.fell or self.since_rise > self.readings // 3
        return self.readings >= _FEWEST and steady and not is_over and self.end >= min(enough) * self.start

    @property
    def text(self) -> str:
        """A description of the readings."""
        start, end = (write_size(int(x)) if self.unit else f"{x:g}" for x in (self.start, self.end))
        return f"memory in use, printed {self.readings} times, grew from {start} to {end} and never fell"


class Trend:
    """Reads a log in order to find growing memory readings, using constant memory."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def see(self, fact: Evidence) -> None:
        """Process the next line."""
        if not any(word in fact.text for word in TREND_WORDS):
            return
        found = _FIGURE.search(fact.text[:400])
        if found is None or any(word in found["name"].lower() for word in _NO_USE) or _NO_USE[0] in fact.text:
            return
        unit = not found["size"][-1].isdigit() or found["size"].isdigit()  # large numbers without a unit are bytes
        amount = float((read_size(found["size"]) or 0) if unit else found["size"])
        if amount and (found["name"] in self._series or len(self._series) < _MOST_SERIES):
            self._series.setdefault(found["name"], _Series(amount, unit)).take(amount, fact)

    @property
    def levels_off(self) -> bool:
        """True if there are enough readings to detect growth, but they did not grow."""
        return any(each.readings >= _FEWEST for each in self._series.values()) and self.conclusion() is None

    def conclusion(self) -> Evidence | None:
        """Return a fact if memory kept growing, or None if it did not grow steadily or there are too few readings."""
        growing = next((each for each in self._series.values() if each.grows), None)
        if growing is None or growing.last is None:
            return None
        return Evidence(TREND_SOURCE, growing.text, growing.last.line, growing.last.origin)
