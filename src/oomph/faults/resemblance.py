"""Which pages a text is most like, by the words and the pairs of words that it shares with them. Pure.

A page holds its wordings, an example and prose in the field's words, so a log that no signature knows is mostly still
written like the page it belongs to. A word counts the more, the fewer pages use it: term frequency times inverse
document frequency (Salton and Buckley, "Term-weighting approaches in automatic text retrieval", 1988).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise

from oomph.faults.fault import Fault
from oomph.faults.likeness import Likeness

THIN = 0.05
"""A text that is less like any page than this is like none."""
_SHORTEST = 3  # letters of a word; what is shorter says little and is everywhere
_SHARPNESS = 1.25  # of the inverse document frequency: how much more a rare word counts
_TYPICAL = 8.0  # weight of a page's word: a page is divided by what its words would weigh, to spare weighing them all
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LOWER = bytes(byte | 32 if chr(byte).isascii() and chr(byte).isalpha() else 32 for byte in range(256))

Term = tuple[bytes, ...]


class _Page:
    """The words of one page, ready to be asked for; what nobody asks for is never counted."""

    def __init__(self, text: str) -> None:
        words = _words(text)
        self._text = b" %b " % b"  ".join(words)
        self._known = frozenset(words)
        self.size = math.sqrt(len(self._known)) * _TYPICAL or 1.0

    def count(self, term: Term) -> int:
        """How often a word, or a pair of neighbouring words, stands in it."""
        if not self._known.issuperset(term):
            return 0
        return self._text.count(b" %b " % b"  ".join(term))


class Resemblance:
    """The pages' words.

    Args:
        texts: the whole text of each page, by the fault's name.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._pages = {name: _Page(text) for name, text in texts.items()}

    def of(self, text: str) -> tuple[Likeness, ...]:
        """Every page with how much the text is like it, 0 to 1, the likest first."""
        words = _words(text)
        terms = Counter[Term]((word,) for word in words)
        terms.update(pairwise(words))
        shared, size = dict.fromkeys(self._pages, 0.0), 0.0
        for term, times in terms.items():
            counts = {name: count for name, page in self._pages.items() if (count := page.count(term))}
            if counts:
                rarity = math.log((len(self._pages) + 1) / len(counts)) ** _SHARPNESS
                size += (_weight(times) * rarity) ** 2
                for name, count in counts.items():
                    shared[name] += _weight(times) * _weight(count) * rarity**2
        whole = math.sqrt(size) or 1.0
        alike = (Likeness(name, min(1.0, part / (whole * self._pages[name].size))) for name, part in shared.items())
        return tuple(sorted(alike, key=lambda likeness: -likeness.confidence))


@lru_cache(maxsize=2)
def resemblance(catalogue: tuple[Fault, ...], without: tuple[str, ...] = ()) -> Resemblance:
    """The words of a catalogue's pages, read once, except of those named in `without`."""
    return Resemblance({fault.name: fault.text for fault in catalogue if fault.name not in without})


def _weight(count: int) -> float:
    return 1 + math.log(count)


def _words(text: str) -> list[bytes]:
    """The words in it, in their order; FooBar and foo_bar are two words each."""
    letters = _HUMP.sub(" ", text).encode("utf-8", "replace").translate(_LOWER)
    return [word for word in letters.split() if len(word) >= _SHORTEST]
