"""Classifies faults by the words in a log, for logs without a signature. Learned from labelled logs. Pure.

The classifier is a multinomial logistic regression on the words in a log (Bishop, "Pattern Recognition and Machine
Learning", section 4.3.4): each word raises or lowers the score of each fault, the more so the rarer it is, and a
softmax turns the sums into shares. Each line of classifier.txt describes a word: its rarity (inverse document
frequency) and its weights, in hundredths, by page code. `benchmarks/classifier.py` writes the file, and measures how
useful it is on unseen logs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from oomph.explain.catalogue.fault import Fault
from oomph.explain.evidence.evidence import Evidence
from oomph.explain.matching.likeness import Likeness
from oomph.explain.matching.lines import goes_on, is_harmless, tells_of_failure
from oomph.files.patterns import lazy_pattern

TABLE = Path(__file__).with_name("classifier.txt")
SOUND = "sound"
"""The code for the log of a program that did not fail."""
ALWAYS = "*"
"""The pseudo-word that holds each fault's initial weight, before any words are read."""
_FIRST, _LAST = 200, 400
_WORD = lazy_pattern(r"[A-Za-z]{2,}|(?<![\w.,:/-])\d{1,3}(?![\w.,:/%-])")  # also short standalone numbers: 137, 303
_RAISED = lazy_pattern(r"Error\b|Exception\b")
_HUMP = lazy_pattern(r"(?<=[a-z])(?=[A-Z])")


class EvidenceSample:
    """The lines whose words are weighed. To limit memory, only the first and last lines of the evidence are kept."""

    def __init__(self) -> None:
        self._first: list[Evidence] = []
        self._last = deque[Evidence](maxlen=_LAST)

    def see(self, fact: Evidence) -> None:
        """Process the next line."""
        if len(self._first) < _FIRST:
            self._first.append(fact)
        else:
            self._last.append(fact)

    @property
    def facts(self) -> list[Evidence]:
        """The kept lines."""
        return [*self._first, *self._last]

    @property
    def in_force(self) -> list[Evidence]:
        """The kept lines, excluding harmless ones and failures that training survived."""
        went_on = max((place for place, fact in enumerate(self.facts) if goes_on(fact.text)), default=-1)
        return [
            fact
            for place, fact in enumerate(self.facts)
            if not is_harmless(fact.text) and not (place < went_on and _is_of_failure(fact.text))
        ]


class Shares(NamedTuple):
    """The share that the words in a log give to each fault. The shares add up to 1."""

    faults: tuple[Likeness, ...]
    """The pages, the most likely first."""
    sound: float
    """The share for no fault at all."""
    words: int
    """The number of known words in the log."""

    def of(self, name: str) -> float:
        """Return the share of the page with this name."""
        return next((likeness.confidence for likeness in self.faults if likeness.name == name), 0.0)


def words(texts: Iterable[str]) -> list[str]:
    """Return the distinct words and numbers in the texts, sorted. FooBar and foo_bar count as two words each."""
    return sorted({word.lower() for text in texts for word in _WORD.findall(_HUMP.sub(" ", text))})


class Classifier:
    """Scores faults with the learned weights.

    Args:
        table: the text of classifier.txt.
        catalogue: the pages to choose from.
    """

    def __init__(self, table: str, catalogue: Sequence[Fault]) -> None:
        lines = (line.partition(" ") for line in table.splitlines())
        self._lines = {word: rest for word, _, rest in lines}
        self._catalogue = catalogue
        self._rows: dict[str, _Row] = {}

    def shares(self, texts: Iterable[str]) -> Shares:
        """Return the share that the words in the texts give to each fault."""
        rows = [row for word in words(texts) if (row := self._row(word)).weights]
        sums = dict(self._row(ALWAYS).weights)
        norm = math.sqrt(sum(row.rarity**2 for row in rows)) or 1.0
        for row in rows:
            for code, weight in row.weights.items():
                sums[code] = sums.get(code, 0.0) + weight * row.rarity / norm
        highest = max(sums.values(), default=0.0)
        parts = {code: math.exp(value - highest) for code, value in sums.items()}
        whole = sum(parts.values()) or 1.0
        pages = (Likeness(page.name, parts[page.code] / whole) for page in self._catalogue if page.code in parts)
        likeliest = sorted(pages, key=lambda page: (-page.confidence, page.name))
        return Shares(tuple(likeliest), parts.get(SOUND, 0.0) / whole, len(rows))

    def telling(self, facts: Sequence[Evidence], fault: Fault) -> Evidence | None:
        """Return the line whose words most suggest the fault (the first one in a tie), or None if no line does."""
        sums = [sum(self._spoken(word, fault.code) for word in words((fact.text,))) for fact in facts]
        most = max(sums, default=0.0)
        return facts[sums.index(most)] if most > 0 else None

    def _spoken(self, word: str, code: str) -> float:
        row = self._row(word)
        return row.rarity * row.weights.get(code, 0.0)

    def _row(self, word: str) -> _Row:
        row = self._rows.get(word)
        if row is None:
            row = self._rows[word] = _read(self._lines.get(word, "0"))
        return row


@lru_cache(maxsize=2)
def trained(catalogue: tuple[Fault, ...]) -> Classifier:
    """Load and cache the classifier from classifier.txt. If the file cannot be read, the classifier is empty."""
    try:
        return Classifier(TABLE.read_text(encoding="ascii"), catalogue)
    except (OSError, ValueError):
        return Classifier("", catalogue)


def _is_of_failure(text: str) -> bool:
    return tells_of_failure(text) or _RAISED.search(text) is not None


class _Row(NamedTuple):
    rarity: float
    weights: Mapping[str, float]


def _read(line: str) -> _Row:
    """Parse the rest of a line, after its word. A malformed line yields an empty row."""
    rarity, *pairs = line.split(" ")
    weights = (pair.split("=") for pair in pairs)
    try:
        return _Row(int(rarity) / 100, {code: int(weight) / 100 for code, weight in weights})
    except ValueError:
        return _Row(0.0, {})
