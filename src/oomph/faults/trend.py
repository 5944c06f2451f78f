"""Memory that a program prints again and again, and that only ever grows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from oomph.faults.evidence import Evidence
from oomph.faults.sizes import read_size, write_size

SOURCE = "trend"
WORDS = frozenset({"memory", "Memory", "RAM", "RSS", "rss", "mem", "Mem"})

_FIGURE = re.compile(
    r"\b(?:memory|RAM|RSS|mem)\b[^\n\d]{0,40}(?P<size>\d+(?:\.\d+)? ?(?:[KMGT]i?B?|bytes)\b)", re.IGNORECASE
)
_TAKEN = "trying to allocate"  # the allocator's own lines are requests, not readings
_FEWEST = 6
_GROWTH = 1.3
_CALM = 0.2


@dataclass
class Trend:
    """Reads a log in order; constant memory."""

    readings: int = 0
    rises: int = 0
    start: int = 0
    end: int = 0
    fell: bool = False
    last: Evidence | None = None

    def see(self, fact: Evidence) -> None:
        """Take the next line into account."""
        if _TAKEN in fact.text or not any(word in fact.text for word in WORDS):
            return
        found = _FIGURE.search(fact.text[:400])
        size = None if found is None else read_size(found["size"])
        if size:
            self._take(size, fact)

    def conclusion(self) -> Evidence | None:
        """The fact that memory only grew; None when it did not, or was not printed often enough."""
        steady = self.rises >= (1 - _CALM) * (self.readings - 1)
        if self.last is None or self.fell or self.readings < _FEWEST or not steady or self.end < _GROWTH * self.start:
            return None
        grew = f"from {write_size(self.start)} to {write_size(self.end)}"
        text = f"memory in use, printed {self.readings} times, grew {grew} and never fell"
        return Evidence(SOURCE, text, self.last.line, self.last.origin)

    def _take(self, size: int, fact: Evidence) -> None:
        if not self.readings:
            self.start = size
        self.rises += size > self.end > 0
        self.fell |= size < self.end
        self.readings, self.end, self.last = self.readings + 1, size, fact
