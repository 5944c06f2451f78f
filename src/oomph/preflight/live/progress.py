"""How far the reading of data is, in words, and how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from oomph.preflight.facts.data import ENDLESS

_EVERY_SECONDS = 0.5


class Progress:
    """Tells at most twice a second how many batches were read.

    Args:
        batches: how many there are; None or ENDLESS where that is not known.
        tell: takes the words.
    """

    def __init__(self, batches: int | None, tell: Callable[[str], None]) -> None:
        self._batches = None if batches == ENDLESS else batches
        self._tell = tell
        self._began = time.monotonic()
        self._due = self._began + _EVERY_SECONDS

    def __call__(self, read: int) -> None:
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _EVERY_SECONDS
            self._tell(in_words(read, self._batches, now - self._began))


def in_words(read: int, batches: int | None, seconds: float) -> str:
    """ "reading the data: 340 of 2,000 batches (17%), about 12 s left".

    Args:
        read: the batches that were read.
        batches: how many there are; None: not known.
        seconds: how long that took.
    """
    if batches is None or batches < read:
        return f"reading the data: {read:,} batches"
    left = seconds / max(read, 1) * (batches - read)
    return f"reading the data: {read:,} of {batches:,} batches ({read / batches:.0%}), about {left:.0f} s left"
