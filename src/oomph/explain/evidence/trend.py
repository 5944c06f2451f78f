"""Memory readings that a program prints and that only ever grow."""

from __future__ import annotations

from oomph.explain.evidence.evidence import Evidence
from oomph.explain.evidence.sizes import read_size, write_size
from oomph.files.patterns import lazy_pattern

SOURCE = "trend"
WORDS = frozenset({"memory", "Memory", "RAM", "RSS", "rss", "mem", "Mem"})

_FIGURE = lazy_pattern(
    r"(?P<name>(?<![A-Za-z])(?i:memory|RAM|RSS|mem|mem_usage|memory_usage|mem_used|memory_used)\b[^\n\d]{0,40}"
    r"(?:(?<=[a-zA-Z])\d:? [^\n\d]{0,20}|(?<=:)\d:[^\n\d]{0,20})?|(?<=')(?i:current)': )"
    r"(?P<size>\d+(?:\.\d+)? ?(?i:[KMGT]i?B?|bytes)\b|\d+\.\d+\b(?! ?%)|\d{7,15}\b(?! ?%))"
)
_NO_USE = ("trying to allocate", "available", "free", "total", "limit")
"""Words that mark figures other than memory in use: requests, free memory, totals."""
_FEWEST = 6
_GROWTH = 1.25
_GROWTH_OF_MANY = {7: 1.15, 9: 1.05}
"""Number of rises → the growth that is then enough, if the readings hardly ever fell."""
_HARDLY = 0.995
"""A reading of less than this share of the one before counts as lower."""
_CALM = 0.4
"""The share of readings that need not be higher than the one before."""
_DIP = 0.98
"""A reading below this share of the last one is a fall; smaller dips are normal."""
_MOST_SERIES = 16


class _Series:
    """The readings that were printed under one name."""

    def __init__(self, start: float, unit: bool) -> None:
        self.start = start
        self.end = 0.0
        self.readings = self.rises = 0
        self.since_rise = 0
        """The number of readings since the last one that was higher than the one before."""
        self.ever_lower = False
        """True if a reading was below `_HARDLY` of the one before."""
        self.fell = False
        """True if a reading fell below `_DIP` of the one before."""
        self.last: Evidence | None = None
        self.unit = unit

    def take(self, size: float, fact: Evidence) -> None:
        """Take the next reading into account."""
        self.rises += size > self.end > 0
        self.since_rise = 0 if size > self.end else self.since_rise + 1
        self.ever_lower |= size < _HARDLY * self.end
        self.fell |= size < _DIP * self.end
        self.readings, self.end, self.last = self.readings + 1, size, fact

    @property
    def grows(self) -> bool:
        """True if the readings only grew, and there are enough of them."""
        steady = self.rises >= (1 - _CALM) * (self.readings - 1)
        enough = [_GROWTH]
        if not self.ever_lower:
            enough += [growth for rises, growth in _GROWTH_OF_MANY.items() if self.rises >= rises]
        is_over = self.fell or self.since_rise > self.readings // 3
        return self.readings >= _FEWEST and steady and not is_over and self.end >= min(enough) * self.start

    @property
    def text(self) -> str:
        """The readings in words."""
        start, end = (write_size(int(x)) if self.unit else f"{x:g}" for x in (self.start, self.end))
        return f"memory in use, printed {self.readings} times, grew from {start} to {end} and never fell"


class Trend:
    """Reads a log in order; constant memory."""

    def __init__(self) -> None:
        self._series: dict[str, _Series] = {}

    def see(self, fact: Evidence) -> None:
        """Take the next line into account."""
        if not any(word in fact.text for word in WORDS):
            return
        found = _FIGURE.search(fact.text[:400])
        if found is None or any(word in found["name"].lower() for word in _NO_USE) or _NO_USE[0] in fact.text:
            return
        unit = not found["size"][-1].isdigit() or found["size"].isdigit()  # millions without a unit are bytes
        amount = float((read_size(found["size"]) or 0) if unit else found["size"])
        if amount and (found["name"] in self._series or len(self._series) < _MOST_SERIES):
            self._series.setdefault(found["name"], _Series(amount, unit)).take(amount, fact)

    @property
    def levels_off(self) -> bool:
        """True if there are enough readings to tell growth, and none was found."""
        return any(each.readings >= _FEWEST for each in self._series.values()) and self.conclusion() is None

    def conclusion(self) -> Evidence | None:
        """Growing memory as a fact; None if it did not only grow, or there are too few readings."""
        growing = next((each for each in self._series.values() if each.grows), None)
        if growing is None or growing.last is None:
            return None
        return Evidence(SOURCE, growing.text, growing.last.line, growing.last.origin)
